#include "worker/image/chart.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace ddp::worker {
namespace {

constexpr Color kRed{200, 0, 0};

/// At a place of the plot, from its top left.
Color color_at(const Chart& chart, int y, int x) {
  const Image& image = chart.image();
  const auto pixel = [&](int channel) {
    return image.row(channel, chart.plot().top + y)[chart.plot().left + x];
  };
  return {pixel(0), pixel(1), pixel(2)};
}

TEST(Chart, ABarHasTheHeightOfItsNumber) {
  Chart chart({100, 200}, "bars", {.high = 10, .step = 1}, {.high = 50, .step = 10});
  chart.fill(2, 0, 4, 30, kRed);  // of 200 pixels for 10, and 100 for 50
  for (int y = 0; y < 100; ++y) {
    for (int x = 0; x < 200; ++x) {
      const bool is_inside = 40 <= x && x < 80 && 40 <= y;
      ASSERT_EQ(color_at(chart, y, x) == kRed, is_inside) << y << " " << x;
    }
  }
}

TEST(Chart, AnAxisMayRunTheOtherWay) {
  Chart chart({100, 100}, "down", {}, {.low = 1, .high = 0});
  chart.fill(0, 0, 1, 0.1, kRed);
  EXPECT_EQ(color_at(chart, 9, 50), kRed);
  EXPECT_NE(color_at(chart, 10, 50), kRed);
}

TEST(Chart, ACurveGoesThroughItsPointsAndStaysInThePlot) {
  Chart chart({101, 201}, "curve", {}, {});
  const std::vector<double> x{0, 0.5, 1};
  const std::vector<double> y{0, 1, 0};
  chart.curve(x, y, 1, kRed);
  for (int column = 0; column <= 200; ++column) {
    const double height = 1 - std::abs(column / 200. - 0.5) * 2;
    bool is_there = false;
    for (int row = 0; row <= 100; ++row) {
      if (color_at(chart, row, column) != kRed) continue;
      EXPECT_NEAR(row, 100 * (1 - height), 2) << column;
      is_there = true;
    }
    EXPECT_TRUE(is_there) << column;
  }
  const Image& image = chart.image();
  for (int row = 0; row < image.height; ++row) {
    const bool is_outside = row < chart.plot().top || row >= chart.plot().top + chart.plot().height;
    for (int column = 0; is_outside && column < image.width; ++column)
      EXPECT_FALSE(image.row(0, row)[column] == kRed[0] && image.row(1, row)[column] == kRed[1]);
  }
}

TEST(Chart, NumbersOfAnAxisAreRound) {
  EXPECT_DOUBLE_EQ(round_step(10, 10), 1);
  EXPECT_DOUBLE_EQ(round_step(11, 10), 2);
  EXPECT_DOUBLE_EQ(round_step(262, 6), 50);
  EXPECT_DOUBLE_EQ(round_step(1, 10), 0.1);
  EXPECT_DOUBLE_EQ(round_step(52000, 6), 10000);
}

TEST(Chart, ColorsOfSeriesDiffer) {
  for (std::size_t i = 0; i < kSeriesColors; ++i) {
    for (std::size_t k = i + 1; k < kSeriesColors; ++k) {
      int distance = 0;
      for (std::size_t channel = 0; channel < 3; ++channel)
        distance += std::abs(series_color(i)[channel] - series_color(k)[channel]);
      EXPECT_GT(distance, 30) << i << " " << k;
    }
  }
}

}  // namespace
}  // namespace ddp::worker
