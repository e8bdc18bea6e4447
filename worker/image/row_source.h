// The sources of a moved row's pixels. Both ways to move an image (perspective and upright) use
// this, so that they make the same pixels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "worker/image/perspective.h"

namespace ddp::worker {

/// Parts of a pixel are counted in 128ths: a sum of two of them fits into 16 bits.
inline constexpr int kPartBits = 7;
inline constexpr int kParts = 1 << kPartBits;
/// A margin in pixels: a source that is this far inside reads no pixel beyond the last one,
/// whatever the rounding.
inline constexpr double kInset = 1.0 / 64;

/// A value that is linear along a row: its value at pixel x.
struct Line {
  double slope = 0;
  double start = 0;

  [[nodiscard]] double at(int x) const { return slope * x + start; }
  Line operator+(const Line& other) const { return {slope + other.slope, start + other.start}; }
  Line operator-(const Line& other) const { return {slope - other.slope, start - other.start}; }
  Line operator*(double factor) const { return {slope * factor, start * factor}; }
};

/// Pixels of a row, from `begin` to before `end`.
struct Range {
  int begin = 0;
  int end = 0;
};

/// The part of a range in which a line is above 0.
inline Range above_zero(const Line& line, Range range) {
  if (line.slope == 0) return line.start > 0 ? range : Range{range.begin, range.begin};
  const double zero = std::clamp(
      -line.start / line.slope, static_cast<double>(range.begin), static_cast<double>(range.end));
  if (line.slope > 0)
    range.begin = static_cast<int>(std::ceil(zero));
  else
    range.end = static_cast<int>(std::ceil(zero));
  return range;
}

/// The sources of the pixels of one row, in pixels: 0 is the middle of the first one. They are x /
/// depth and y / depth.
struct RowSource {
  Line x;
  Line y;
  Line depth;

  /// `back` maps indices of pixels to those of their sources.
  RowSource(const Matrix3& back, int row)
      : x{back[0], back[1] * row + back[2]},
        y{back[3], back[4] * row + back[5]},
        depth{back[6], back[7] * row + back[8]} {}

  [[nodiscard]] bool is_straight() const { return depth.slope == 0; }

  /// Pixels whose source x is in (`first`, `last_x`) and whose source y is in (`first`, `last_y`).
  /// They are in front of the horizon, too: where 0 < x - first * depth and 0 < last_x * depth - x,
  /// depth is positive.
  [[nodiscard]] Range between(double first, double last_x, double last_y, Range range) const {
    for (const Line& line :
         {x - depth * first, depth * last_x - x, y - depth * first, depth * last_y - y})
      range = above_zero(line, range);
    return range;
  }
};

/// A coordinate along a linear path, in whole numbers.
class Steps {
 public:
  Steps(const Line& line, const Line& depth, int x)
      : at_(whole(line.at(x) / depth.start + 0.5 / kParts)),
        step_(whole(line.slope / depth.start)) {}

  [[nodiscard]] std::int32_t pixel() const { return static_cast<std::int32_t>(at_ >> kBits); }
  [[nodiscard]] std::int16_t part() const {
    return static_cast<std::int16_t>(at_ >> (kBits - kPartBits) & (kParts - 1));
  }
  void advance() { at_ += step_; }

 private:
  static constexpr int kBits = 32;  // of the fraction
  // A larger step leaves every image.
  static std::int64_t whole(double number) {
    constexpr double kMost = 0x1p30;
    return static_cast<std::int64_t>(std::clamp(number, -kMost, kMost) * 0x1p32);
  }

  std::int64_t at_;
  std::int64_t step_;
};

static_assert(std::endian::native == std::endian::little, "two pixels are read as one number");

/// Two pixels side by side, the left one in the lower byte.
inline std::uint16_t read_pair(const std::uint8_t* pixels) {
  std::uint16_t pair = 0;
  std::memcpy(&pair, pixels, sizeof pair);
  return pair;
}

/// A coordinate in 128ths of a pixel, to the nearest.
inline std::int64_t parts_of(double coordinate) {
  return static_cast<std::int64_t>(std::floor(coordinate * kParts + 0.5));
}

}  // namespace ddp::worker
