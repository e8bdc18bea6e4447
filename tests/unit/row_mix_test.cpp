#include "worker/image/row_mix.h"

#include <gtest/gtest.h>

#include <random>

namespace ddp::worker {
namespace {

class RowMix : public ::testing::Test {
 protected:
  int draw(int most) { return static_cast<int>(bits_() % static_cast<unsigned>(most + 1)); }

  std::vector<std::uint8_t> draw_row(int width) {
    std::vector<std::uint8_t> row(static_cast<std::size_t>(width));
    for (std::uint8_t& byte : row)
      byte = static_cast<std::uint8_t>(draw(3) == 0 ? 255 * draw(1) : draw(255));
    return row;
  }

  /// Every way makes what the definition says, and writes nothing else.
  void expect_mixed(const std::vector<std::int32_t>& places, int width) {
    std::vector<std::uint8_t> parts;
    for (std::size_t i = 0; i < places.size(); ++i)
      parts.push_back(static_cast<std::uint8_t>(draw(127)));
    const MixedColumns columns(places, parts, width);
    const std::vector<std::uint8_t> upper = draw_row(width);
    const std::vector<std::uint8_t> lower = draw_row(width);
    const int below = draw(127);
    for (const MixKernel& kernel : mix_kernels()) {
      if (columns.starts().empty() && &kernel != &mix_kernels().front()) continue;
      std::vector<std::uint8_t> into(places.size() + 1, 77);
      kernel.mix(upper.data(), lower.data(), below, columns, into.data());
      for (std::size_t i = 0; i < places.size(); ++i) {
        const auto at = static_cast<std::size_t>(places[i]);
        const int above = upper[at] * (128 - parts[i]) + upper[at + 1] * parts[i];
        const int under = lower[at] * (128 - parts[i]) + lower[at + 1] * parts[i];
        const int wanted = (above * (128 - below) + under * below + 8192) >> 14;
        ASSERT_EQ(into[i], wanted) << kernel.name << ", pixel " << i << " of " << places.size();
      }
      EXPECT_EQ(into.back(), 77) << kernel.name;
    }
  }

  std::mt19937 bits_{1};
};

TEST_F(RowMix, EveryWayMakesTheSame) {
  for (const double step : {0.0, 0.3, 1.0, 1.7, 2.0, -0.5, -1.0, -2.0}) {
    for (const std::size_t count : {1U, 2U, 7U, 8U, 15U, 16U, 17U, 33U, 100U}) {
      std::vector<std::int32_t> places;
      const double first = step < 0 ? -step * static_cast<double>(count) : 0;
      for (std::size_t i = 0; i < count; ++i)
        places.push_back(static_cast<std::int32_t>(first + step * static_cast<double>(i)));
      const int width = std::max(places.front(), places.back()) + 2;
      expect_mixed(places, width);
      expect_mixed(places, width + 40);
      const MixedColumns wide(places, std::vector<std::uint8_t>(count), std::max(width, 16));
      EXPECT_FALSE(wide.starts().empty()) << step << ", " << count;
    }
  }
}

TEST_F(RowMix, ColumnsFarApartAreLeftToThePlainWay) {
  const std::vector<std::int32_t> places{0, 15, 30, 45};
  const std::vector<std::uint8_t> parts(4);
  EXPECT_TRUE(MixedColumns(places, parts, 60).starts().empty());
  expect_mixed(places, 60);
  EXPECT_TRUE(MixedColumns({0, 1, 2}, {1, 2, 3}, 8).starts().empty()) << "a row of 8 bytes";
  expect_mixed({0, 1, 2}, 8);
}

TEST_F(RowMix, TheBrightestStaysTheBrightest) {
  const std::vector<std::uint8_t> white(40, 255);
  for (int part = 0; part < 128; ++part) {
    const MixedColumns columns({3, 5}, {static_cast<std::uint8_t>(part), 64}, 40);
    for (const MixKernel& kernel : mix_kernels()) {
      std::vector<std::uint8_t> into(2);
      kernel.mix(white.data(), white.data(), 127 - part, columns, into.data());
      EXPECT_EQ(into, (std::vector<std::uint8_t>{255, 255})) << kernel.name;
    }
  }
}

}  // namespace
}  // namespace ddp::worker
