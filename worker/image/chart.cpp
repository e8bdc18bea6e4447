#include "worker/image/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

#include "worker/image/drawing.h"
#include "worker/image/geometry.h"

namespace ddp::worker {
namespace {

constexpr Color kPaper{255, 255, 255};
constexpr Color kGrid{224, 224, 224};
constexpr int kTitleScale = 3;
constexpr int kTextHeight = kLetterHeight * Chart::kTextScale;
constexpr int kGap = 6;
constexpr int kTitleHeight = kLetterHeight * kTitleScale + 2 * 12;

int width_of(std::string_view text, int scale = Chart::kTextScale) {
  return static_cast<int>(text.size()) * kLetterWidth * scale;
}

int rounded(double value) {
  return static_cast<int>(std::lround(value));
}

/// A number with as many decimals as steps of that size need.
std::string number_text(double value, double step) {
  int decimals = 0;
  for (double size = step; decimals < 6 && size < 0.999; size *= 10)
    ++decimals;
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), static_cast<std::size_t>(std::max(size, 0))};
}

/// The numbers of an axis, from its lower end on.
std::vector<double> numbers_of(const Axis& axis) {
  const double low = std::min(axis.low, axis.high);
  const double high = std::max(axis.low, axis.high);
  std::vector<double> numbers;
  // A little more than the end: 0.1 ten times is not 1.
  for (int i = 0; low + i * axis.step <= high + axis.step * 1e-6; ++i)
    numbers.push_back(low + i * axis.step);
  return numbers;
}

int widest_label(const Axis& axis) {
  int widest = 0;
  for (const std::string& name : axis.names)
    widest = std::max(widest, width_of(name));
  if (!axis.names.empty()) return widest;
  for (const double number : numbers_of(axis))
    widest = std::max(widest, width_of(number_text(number, axis.step)));
  return widest;
}

}  // namespace

double round_step(double high, int count) {
  const double wanted = std::max(high, 1e-9) / count;
  const double power = std::pow(10.0, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (wanted <= factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

Color series_color(std::size_t number) {
  constexpr std::array<Color, kSeriesColors> kColors{
      {{31, 90, 180},   {214, 39, 40},   {30, 140, 50},   {255, 127, 14},  {130, 70, 180},
       {0, 160, 170},   {140, 86, 75},   {227, 90, 180},  {128, 128, 0},   {100, 100, 100},
       {120, 170, 240}, {250, 140, 140}, {120, 200, 120}, {240, 190, 110}, {190, 150, 230},
       {120, 215, 220}, {200, 160, 150}, {245, 170, 215}, {200, 200, 60},  {175, 175, 175}}};
  return kColors[number % kColors.size()];
}

Color heat_color(double value) {
  const double dark = std::clamp(value, 0.0, 1.0);
  const auto mixed = [dark](int at_full) {
    return static_cast<std::uint8_t>(rounded(255 - dark * (255 - at_full)));
  };
  return {mixed(8), mixed(48), mixed(107)};
}

Chart::Chart(ImageSize plot, const std::string& title, Axis x, Axis y, int right)
    : x_(std::move(x)), y_(std::move(y)) {
  plot_ = {
      kTitleHeight, kGap + kTextHeight + kGap + widest_label(y_) + kGap, plot.height, plot.width};
  // Names of places are written upright, below the axis.
  const int labels = x_.names.empty() ? kTextHeight : widest_label(x_);
  image_.reshape(3,
                 {plot_.top + plot.height + kGap + labels + kGap + kTextHeight + kGap,
                  plot_.left + plot.width + right});
  erase(image_, {0, 0, image_.height, image_.width}, kPaper);
  draw_grid();
  draw_interval_names();
  draw_titles(title);
  draw_rectangle(image_, {plot_.top - 1, plot_.left - 1, plot.height + 2, plot.width + 2}, 1, kInk);
}

double Chart::column(double x) const {
  return plot_.left + (x - x_.low) / (x_.high - x_.low) * plot_.width;
}

double Chart::row(double y) const {
  return plot_.top + (y_.high - y) / (y_.high - y_.low) * plot_.height;
}

void Chart::draw_grid() {
  const int bottom = plot_.top + plot_.height;
  if (x_.names.empty()) {
    for (const double number : numbers_of(x_)) {
      const int left = rounded(column(number));
      const std::string text = number_text(number, x_.step);
      erase(image_, {plot_.top, left, plot_.height, 1}, kGrid);
      draw_text(image_, bottom + kGap, left - width_of(text) / 2, kTextScale, kInk, text);
    }
  }
  if (y_.names.empty()) {
    for (const double number : numbers_of(y_)) {
      const int top = rounded(row(number));
      const std::string text = number_text(number, y_.step);
      erase(image_, {top, plot_.left, 1, plot_.width}, kGrid);
      const int left = plot_.left - kGap - width_of(text);
      draw_text(image_, top - kTextHeight / 2, left, kTextScale, kInk, text);
    }
  }
}

void Chart::draw_interval_names() {
  const int bottom = plot_.top + plot_.height;
  for (std::size_t i = 0; i < x_.names.size(); ++i) {
    const int middle = rounded(column(static_cast<double>(i) + 0.5));
    const int start = bottom + kGap + width_of(x_.names[i]);
    draw_text_up(image_, start, middle - kTextHeight / 2, kTextScale, kInk, x_.names[i]);
  }
  for (std::size_t i = 0; i < y_.names.size(); ++i) {
    const int middle = rounded(row(static_cast<double>(i) + 0.5));
    const int left = plot_.left - kGap - width_of(y_.names[i]);
    draw_text(image_, middle - kTextHeight / 2, left, kTextScale, kInk, y_.names[i]);
  }
}

void Chart::draw_titles(const std::string& title) {
  draw_text(image_, 12, plot_.left, kTitleScale, kInk, title);
  const int below = image_.height - kGap - kTextHeight;
  const int middle = plot_.left + (plot_.width - width_of(x_.title)) / 2;
  draw_text(image_, below, middle, kTextScale, kInk, x_.title);
  const int start = plot_.top + (plot_.height + width_of(y_.title)) / 2;
  draw_text_up(image_, start, kGap, kTextScale, kInk, y_.title);
}

void Chart::fill(double x, double y, double to_x, double to_y, Color color) {
  const auto [left, right] = std::minmax({rounded(column(x)), rounded(column(to_x))});
  const auto [top, bottom] = std::minmax({rounded(row(y)), rounded(row(to_y))});
  erase(image_, {top, left, bottom - top, right - left}, color);
}

void Chart::curve(std::span<const double> x,
                  std::span<const double> y,
                  int thickness,
                  Color color) {
  // The pixel that contains a point; both ends of an axis belong to the plot.
  const auto pixel_row = [this](double at) {
    return std::clamp(static_cast<int>(row(at)), plot_.top, plot_.top + plot_.height - 1);
  };
  const auto pixel_column = [this](double at) {
    return std::clamp(static_cast<int>(column(at)), plot_.left, plot_.left + plot_.width - 1);
  };
  for (std::size_t i = 1; i < std::min(x.size(), y.size()); ++i) {
    draw_line(image_,
              pixel_row(y[i - 1]),
              pixel_column(x[i - 1]),
              pixel_row(y[i]),
              pixel_column(x[i]),
              thickness,
              color);
  }
}

void Chart::text(double x, double y, Color color, const std::string& text) {
  const int left = rounded(column(x)) - (width_of(text) - kTextScale) / 2;
  draw_text(image_, rounded(row(y)) - kTextHeight / 2, left, kTextScale, color, text);
}

void Chart::text_right_of(double x, double y, Color color, const std::string& text) {
  const int top = rounded(row(y)) - kTextHeight / 2;
  draw_text(image_, top, rounded(column(x)) + kGap, kTextScale, color, text);
}

void Chart::legend(const std::vector<LegendEntry>& entries) {
  constexpr int kLine = 24;
  int top = plot_.top;
  const int left = plot_.left + plot_.width + 2 * kGap;
  for (const LegendEntry& entry : entries) {
    const int middle = top + kTextHeight / 2;
    erase(image_, {middle - entry.thickness / 2, left, entry.thickness, kLine}, entry.color);
    draw_text(image_, top, left + kLine + kGap, kTextScale, kInk, entry.text);
    top += kTextHeight + 8;
  }
}

}  // namespace ddp::worker
