// Computes the source of each pixel in a row of a moved image. Both ways to move an image
// (perspective and axis_aligned) use this, so that they give the same pixels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "worker/image/perspective.h"

namespace ddp::worker {

/// Fractions of a pixel are in 128ths: then a sum of two weighted bytes fits into 16 bits.
inline constexpr int kPartBits = 7;
inline constexpr int kParts = 1 << kPartBits;
/// A margin in pixels: a source this far inside never reads beyond the last pixel, however it is
/// rounded.
inline constexpr double kInset = 1.0 / 64;

/// A value that is a linear function of the pixel x in a row.
struct Line {
  double slope = 0;
  double start = 0;

  [[nodiscard]] double at(int x) const { return slope * x + start; }
  Line operator+(const Line& other) const { return {slope + other.slope, start + other.start}; }
  Line operator-(const Line& other) const { return {slope - other.slope, start - other.start}; }
  Line operator*(double factor) const { return {slope * factor, start * factor}; }
};

/// Pixels [begin, end) of a row.
struct Range {
  int begin = 0;
  int end = 0;
};

/// The part of `range` in which `line` is above 0.
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

/// The sources of the pixels of one row, x / depth and y / depth, in pixels: 0 is the centre of the
/// first one.
struct RowSource {
  Line x;
  Line y;
  Line depth;

  /// `back` maps pixel indices to source indices.
  RowSource(const Matrix3& back, int row)
      : x{back[0], back[1] * row + back[2]},
        y{back[3], back[4] * row + back[5]},
        depth{back[6], back[7] * row + back[8]} {}

  [[nodiscard]] bool is_straight() const { return depth.slope == 0; }

  /// The pixels in `range` whose source x is in (`first`, `last_x`) and whose source y is in
  /// (`first`, `last_y`). They are in front of the horizon: if 0 < x - first * depth and 0 < last_x
  /// * depth - x, depth is positive.
  [[nodiscard]] Range between(double first, double last_x, double last_y, Range range) const {
    for (const Line& line :
         {x - depth * first, depth * last_x - x, y - depth * first, depth * last_y - y})
      range = above_zero(line, range);
    return range;
  }
};

/// Steps through a linear coordinate in fixed-point numbers.
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
  // The limit is beyond the size of any image.
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

/// A coordinate in 128ths of a pixel, rounded to nearest.
inline std::int64_t parts_of(double coordinate) {
  return static_cast<std::int64_t>(std::floor(coordinate * kParts + 0.5));
}

}  // namespace ddp::worker
