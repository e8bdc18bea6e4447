#include "common/report/svg_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddp {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(SvgChart, ThinningKeepsPeaksAndWhatIsNotFinite) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 1'000'000; ++i)
    points.push_back({static_cast<double>(i), std::sin(i * 0.001)});
  points[400'123].y = 50;
  points[700'001].y = kNaN;
  const std::vector<ChartPoint> kept = thin(points, 600);
  EXPECT_LE(kept.size(), 600U);
  EXPECT_GE(kept.size(), 300U);
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &ChartPoint::x));
  EXPECT_TRUE(std::ranges::any_of(kept, [](const ChartPoint& one) { return one.y == 50; }));
  EXPECT_TRUE(std::ranges::any_of(kept, [](const ChartPoint& one) { return std::isnan(one.y); }));
}

TEST(SvgChart, AValueThatIsNotFiniteIsAGapAndIsSaid) {
  const std::string svg =
      svg_chart({.title = "Loss", .curves = {{"train", {{1, 2}, {2, kNaN}, {3, 1}, {4, 1}}}}});
  EXPECT_NE(svg.find("1 of them not a finite number"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::size_t path = svg.find("d=\"M");
  ASSERT_NE(path, std::string::npos);
  EXPECT_NE(svg.find('M', path + 4), std::string::npos) << "two pieces";
}

TEST(SvgChart, AConstantZeroLiesOnItsAxis) {
  const std::string svg = svg_chart({.title = "Loss", .curves = {{"train", {{1, 0}, {2, 0}}}}});
  EXPECT_EQ(svg.find(">-0."), std::string::npos);
  EXPECT_NE(svg.find(">0</text>"), std::string::npos);
}

TEST(SvgChart, TheLastNumberBelowIsWhole) {
  const std::string svg = svg_chart({.title = "Loss", .curves = {{"train", {{1, 2}, {1000, 3}}}}});
  const std::size_t end = svg.find("\" text-anchor=\"middle\">1000<");
  ASSERT_NE(end, std::string::npos);
  const std::size_t y = svg.rfind(" y=", end);
  const std::size_t begin = svg.rfind("x=\"", y) + 3;
  constexpr double kHalf = 15;  // of the width of four digits
  EXPECT_LE(std::stod(svg.substr(begin, y - begin)) + kHalf, 420);
}

TEST(SvgChart, NoPointsGiveNoChart) {
  EXPECT_EQ(svg_chart({.title = "Loss", .curves = {}}), "");
  EXPECT_EQ(svg_chart({.title = "Loss", .curves = {{"train", {{1, kNaN}}}}}), "");
}

TEST(SvgChart, NamesAreEscaped) {
  const std::string svg = svg_chart({.title = "<script>",
                                     .curves = {{"</svg><script>", {{1, 2}, {2, 3}}}},
                                     .marks = {{ChartMark::Kind::end, 2, "<img>", "\"><script>"}}});
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_EQ(svg.find("<img"), std::string::npos);
}

TEST(SvgChart, ValuesOfAnySizeGiveAChart) {
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  for (const auto& [low, high] : {std::pair(0.0, 0.0),
                                  {5.0, 5.0},
                                  {-kMost, kMost},
                                  {0.0, kLeast},
                                  {1e20, 1e20 + 20000},
                                  {-1e-300, 1e-300},
                                  {kMost, kMost},
                                  {0.0, kMost}}) {
    const std::string svg = svg_chart({.title = "t", .curves = {{"c", {{0, low}, {9e15, high}}}}});
    EXPECT_LT(svg.size(), 20'000U) << low << " to " << high;
  }
}

}  // namespace
}  // namespace ddp
