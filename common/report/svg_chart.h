// Curves between two axes, as SVG in a page: no script, colours by the page's style.
#pragma once

#include <string>
#include <vector>

namespace ddp {

struct ChartPoint {
  double x = 0;
  double y = 0;  // not finite: the curve has a gap there
};

struct ChartCurve {
  std::string name;
  std::vector<ChartPoint> points;  // x ascending; any number, of which fewer are drawn
  int color = 0;                   // of kChartColors
  bool is_faint = false;
};

inline constexpr int kChartColors = 6;

/// A line from top to bottom; for a checkpoint a small triangle at the bottom.
struct ChartMark {
  enum class Kind { restart, save, best, end };
  Kind kind = Kind::restart;
  double x = 0;
  std::string text;   // a browser's tooltip
  std::string state;  // of an end: the run's state
};

struct ChartRequest {
  std::string title;
  std::string x_title = "step";
  std::vector<ChartCurve> curves;
  std::vector<ChartMark> marks{};
  bool starts_at_zero = false;  // the vertical axis
};

/// A card with title, chart and legend. Empty: no curve has a finite point.
std::string svg_chart(const ChartRequest& request);

/// At most about `most` of the points: of each stretch the lowest and the highest, so that peaks
/// stay, and one that is not finite, if any.
std::vector<ChartPoint> thin(const std::vector<ChartPoint>& points, std::size_t most);

}  // namespace ddp
