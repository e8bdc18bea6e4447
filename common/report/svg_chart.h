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
  std::vector<ChartPoint> points;  // x ascending; as many as there are, drawn are fewer
  int color = 0;                   // of kChartColors
  bool is_faint = false;
};

inline constexpr int kChartColors = 6;

/// A line from top to bottom, or for a checkpoint a small triangle at the foot.
struct ChartMark {
  enum class Kind { restart, save, best, end };
  Kind kind = Kind::restart;
  double x = 0;
  std::string text;   // shown by a browser when one points at it
  std::string state;  // of the run, of an end
};

struct ChartRequest {
  std::string title;
  std::string x_title = "step";
  std::vector<ChartCurve> curves;
  std::vector<ChartMark> marks{};
  bool starts_at_zero = false;  // the vertical axis
};

/// A card with title, chart and legend. Empty where no curve has a finite point.
std::string svg_chart(const ChartRequest& request);

/// At most about `most` of the points: of each stretch the lowest and the highest, so that peaks
/// stay, and one that is not finite where there is one.
std::vector<ChartPoint> thin(const std::vector<ChartPoint>& points, std::size_t most);

}  // namespace ddp
