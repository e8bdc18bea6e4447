#include "worker/image/weighted_sums.h"

#include <algorithm>

#include "worker/image/weighted_sums_x86.h"

namespace ddp::worker {
namespace {

std::uint8_t to_byte(std::int32_t sum, int shift) {
  return static_cast<std::uint8_t>(std::clamp((sum + (1 << (shift - 1))) >> shift, 0, 255));
}

void sum_pixels(const std::uint8_t* row,
                const int* first,
                const std::int16_t* weights,
                std::size_t taps,
                int shift,
                std::size_t count,
                std::uint8_t* into) {
  for (std::size_t i = 0; i < count; ++i, weights += taps) {
    const std::uint8_t* const pixels = row + kPixel * static_cast<std::size_t>(first[i]);
    for (std::size_t c = 0; c < kPixel; ++c) {
      std::int32_t sum = 0;
      for (std::size_t t = 0; t < taps; ++t)
        sum += pixels[kPixel * t + c] * weights[t];
      into[kPixel * i + c] = to_byte(sum, shift);
    }
  }
}

void sum_rows(const std::uint8_t* rows,
              std::size_t stride,
              const std::int16_t* weights,
              std::size_t taps,
              int shift,
              std::uint8_t* into) {
  for (std::size_t x = 0; x < stride; ++x) {
    std::int32_t sum = 0;
    for (std::size_t t = 0; t < taps; ++t)
      sum += rows[t * stride + x] * weights[t];
    into[x] = to_byte(sum, shift);
  }
}

}  // namespace

const std::vector<SumWay>& sum_ways() {
  static const std::vector<SumWay> kWays = [] {
    std::vector<SumWay> ways{{"plain", sum_pixels, sum_rows}};
    for (const SumWay& way : sum_ways_of_x86())
      ways.push_back(way);
    return ways;
  }();
  return kWays;
}

}  // namespace ddp::worker
