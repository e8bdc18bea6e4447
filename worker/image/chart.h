// Draws charts: curves and bars between two axes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// One axis of a chart. If `high` is below `low`, the axis is reversed.
struct Axis {
  std::string title{};
  double low = 0;
  double high = 1;
  double step = 0.1;  // between numbers and grid lines
  /// Names of the intervals 0 to 1, 1 to 2, ...: written instead of numbers, without a grid.
  std::vector<std::string> names{};
};

struct LegendEntry {
  std::string text;
  Color color{};
  int thickness = 1;
};

/// 1, 2 or 5 times a power of ten, such that about `count` steps lead from 0 to `high`.
double round_step(double high, int count);

/// Colors that are easy to tell apart on white; they repeat after kSeriesColors.
inline constexpr std::size_t kSeriesColors = 20;
Color series_color(std::size_t number);

/// A color from white (0) to dark (1).
Color heat_color(double value);

class Chart {
 public:
  static constexpr Color kInk{32, 32, 32};
  static constexpr int kTextScale = 2;

  /// Draws title, axes and grid. `plot` is the size of the area between the axes; the image is
  /// larger, with `right` more pixels at its right, for example for a legend.
  Chart(ImageSize plot, const std::string& title, Axis x, Axis y, int right = 24);

  /// A rectangle between two points, in numbers of the axes.
  void fill(double x, double y, double to_x, double to_y, Color color);
  /// A curve through points in numbers of the axes. Shapes: equally many.
  void curve(std::span<const double> x, std::span<const double> y, int thickness, Color color);
  /// Text that is centred at a point.
  void text(double x, double y, Color color, const std::string& text);
  /// Text to the right of a point.
  void text_right_of(double x, double y, Color color, const std::string& text);
  /// A legend at the right side, from the top.
  void legend(const std::vector<LegendEntry>& entries);

  /// Where points are drawn: the pixels of the image between the axes.
  [[nodiscard]] const Region& plot() const { return plot_; }
  [[nodiscard]] const Image& image() const { return image_; }

 private:
  void draw_grid();
  void draw_interval_names();
  void draw_titles(const std::string& title);
  [[nodiscard]] double column(double x) const;
  [[nodiscard]] double row(double y) const;

  Axis x_;
  Axis y_;
  Region plot_;
  Image image_;
};

}  // namespace ddp::worker
