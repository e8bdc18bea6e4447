#include "worker/image/weighted_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ddp::worker {
namespace {

class WeightedSums : public ::testing::Test {
 protected:
  std::uint32_t draw() { return (state_ = state_ * 1664525 + 1013904223) >> 8; }

  std::vector<std::uint8_t> draw_bytes(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    for (std::uint8_t& byte : bytes)
      byte = static_cast<std::uint8_t>(draw() % 4 == 0 ? 255 : draw());
    return bytes;
  }

  /// As many as of a resize, whose sum may round to more than one.
  std::vector<std::int16_t> draw_weights(std::size_t taps) {
    std::vector<std::int16_t> weights(taps);
    for (std::int16_t& weight : weights)
      weight = static_cast<std::int16_t>(draw() % (2 * (1 << kShift) / taps));
    return weights;
  }

  static std::uint8_t rounded(std::int32_t sum) {
    return static_cast<std::uint8_t>(std::clamp((sum + (1 << (kShift - 1))) >> kShift, 0, 255));
  }

  static constexpr int kShift = 14;
  std::uint32_t state_ = 1;
};

TEST_F(WeightedSums, PixelSumsEqualTheFormula) {
  for (const std::size_t taps : {4U, 8U, 20U}) {
    for (const std::size_t count : {1U, 4U, 7U, 8U, 21U}) {
      const std::vector<std::uint8_t> row = draw_bytes(kPixel * (taps + 10));
      std::vector<int> first(count);
      std::vector<std::int16_t> weights;
      for (int& one : first) {
        one = static_cast<int>(draw() % 10);
        const std::vector<std::int16_t> own = draw_weights(taps);
        weights.insert(weights.end(), own.begin(), own.end());
      }
      for (const SumKernel& kernel : sum_kernels()) {
        std::vector<std::uint8_t> into(kPixel * count + 1, 77);
        kernel.pixels(row.data(), first.data(), weights.data(), taps, kShift, count, into.data());
        for (std::size_t i = 0; i < kPixel * count; ++i) {
          std::int32_t sum = 0;
          for (std::size_t t = 0; t < taps; ++t) {
            const std::size_t x = static_cast<std::size_t>(first[i / kPixel]) + t;
            sum += row[kPixel * x + i % kPixel] * weights[i / kPixel * taps + t];
          }
          EXPECT_EQ(into[i], rounded(sum)) << kernel.name << ", " << taps << " taps, byte " << i;
        }
        EXPECT_EQ(into.back(), 77) << kernel.name << ": nothing behind it is written";
      }
    }
  }
}

TEST_F(WeightedSums, RowSumsEqualTheFormula) {
  constexpr std::size_t kStride = 3 * kVectorBytes;
  for (std::size_t taps = 1; taps <= 9; ++taps) {
    const std::vector<std::uint8_t> rows = draw_bytes(taps * kStride);
    const std::vector<std::int16_t> weights = draw_weights(taps);
    for (const SumKernel& kernel : sum_kernels()) {
      std::vector<std::uint8_t> into(kStride);
      kernel.rows(rows.data(), kStride, weights.data(), taps, kShift, into.data());
      for (std::size_t x = 0; x < kStride; ++x) {
        std::int32_t sum = 0;
        for (std::size_t t = 0; t < taps; ++t)
          sum += rows[t * kStride + x] * weights[t];
        EXPECT_EQ(into[x], rounded(sum)) << kernel.name << ", " << taps << " taps, byte " << x;
      }
    }
  }
}

}  // namespace
}  // namespace ddp::worker
