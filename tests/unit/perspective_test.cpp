#include "worker/image/perspective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "worker/image/box.h"

namespace ddp::worker {
namespace {

constexpr Color kBorder{114, 100, 7};

/// Smooth, so that a small part of a pixel makes a small difference.
Image waves(ImageSize size) {
  Image image;
  image.reshape(3, size);
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x)
        image.row(channel, y)[x] = static_cast<std::uint8_t>(
            127.5 + 120 * std::sin(0.11 * x + channel) * std::cos(0.07 * y - channel));
    }
  }
  return image;
}

/// The definition, pixel by pixel in double.
double reference(const Image& from, const Matrix3& back, int channel, int x, int y, double border) {
  const double at_x = x + 0.5;
  const double at_y = y + 0.5;
  const double depth = back[6] * at_x + back[7] * at_y + back[8];
  if (depth <= 0) return border;
  const double u = (back[0] * at_x + back[1] * at_y + back[2]) / depth - 0.5;
  const double v = (back[3] * at_x + back[4] * at_y + back[5]) / depth - 0.5;
  const double column = std::floor(u);
  const double row = std::floor(v);
  const auto pixel = [&](double px, double py) {
    if (px < 0 || py < 0 || px >= from.width || py >= from.height) return border;
    return static_cast<double>(from.row(channel, static_cast<int>(py))[static_cast<int>(px)]);
  };
  const double right = u - column;
  const double below = v - row;
  return (pixel(column, row) * (1 - right) + pixel(column + 1, row) * right) * (1 - below) +
         (pixel(column, row + 1) * (1 - right) + pixel(column + 1, row + 1) * right) * below;
}

void expect_near_reference(const Image& from, const Matrix3& matrix, ImageSize size, double most) {
  Image into;
  move_perspective(from, matrix, size, kBorder, into);
  ASSERT_EQ(into.size(), size);
  const Matrix3 back = inverse(matrix);
  for (int channel = 0; channel < from.channels; ++channel) {
    const double border = kBorder[static_cast<std::size_t>(channel)];
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x) {
        ASSERT_NEAR(into.row(channel, y)[x], reference(from, back, channel, x, y, border), most)
            << channel << " " << y << " " << x;
      }
    }
  }
}

TEST(PerspectiveTest, AShiftByWholePixelsCopiesThem) {
  const Image from = waves({20, 90});
  Image into;
  move_perspective(from, {1, 0, 3, 0, 1, -2, 0, 0, 1}, {25, 100}, kBorder, into);
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < 25; ++y) {
      for (int x = 0; x < 100; ++x) {
        const bool is_there = x >= 3 && x < 93 && y < 18;
        ASSERT_EQ(into.row(channel, y)[x],
                  is_there ? from.row(channel, y + 2)[x - 3]
                           : kBorder[static_cast<std::size_t>(channel)]);
      }
    }
  }
}

TEST(PerspectiveTest, PixelsAreThoseOfTheDefinition) {
  std::mt19937 bits(1);
  const auto uniform = [&bits](double low, double high) {
    return low + (high - low) * static_cast<double>(bits()) / 0x1p32;
  };
  const auto side = [&](int most) { return 10 + static_cast<int>(uniform(0, most)); };
  for (int i = 0; i < 60; ++i) {
    const ImageSize size{side(90), side(150)};
    const Image from = waves(size);
    const double angle = uniform(-3.2, 3.2);
    const double scale = uniform(0.3, 3);
    Matrix3 matrix{scale * std::cos(angle),
                   scale * std::sin(angle) + uniform(-0.3, 0.3),
                   0,
                   -scale * std::sin(angle),
                   scale * std::cos(angle),
                   0,
                   0,
                   0,
                   1};
    if (i % 3 == 0) matrix[6] = uniform(-0.002, 0.002);
    if (i % 3 == 1) matrix[7] = uniform(-0.002, 0.002);
    if (i % 3 == 2) matrix[1] = matrix[3] = 0;
    const Matrix3 center{1, 0, -0.5 * size.width, 0, 1, -0.5 * size.height, 0, 0, 1};
    const Matrix3 back{1, 0, uniform(10, 90), 0, 1, uniform(10, 90), 0, 0, 1};
    // A half for rounding, and of each side 1/256 of a pixel of a slope of at most 255 at the edge.
    expect_near_reference(from, multiply(back, multiply(matrix, center)), {100, 130}, 2.6);
  }
}

TEST(PerspectiveTest, OnePixelAndWhatIsNotSeenAreNoTrap) {
  const Image one = waves({1, 1});
  for (const double scale : {0.01, 0.7, 1.0, 9.3, 1000.0})
    expect_near_reference(one, {scale, 0, 3, 0, scale, 4, 0, 0, 1}, {20, 20}, 1.6);
  for (const double far : {1e9, -1e9, 1e18, 1e300}) {
    Image into;
    move_perspective(waves({8, 8}), {1, 0, far, 0, 1, 0, 0, 0, 1}, {5, 6}, kBorder, into);
    EXPECT_EQ(into.plane(1)[0], kBorder[1]);
    EXPECT_EQ(into.plane(2)[29], kBorder[2]);
  }
}

TEST(PerspectiveTest, BehindTheHorizonThereIsTheBorder) {
  // The depth is 0 at x = 50, and what lies behind it would be seen upside down.
  const Matrix3 tilted{1, 0, 0, 0, 1, 0, -0.02, 0, 1};
  expect_near_reference(waves({40, 100}), tilted, {60, 60}, 3);
  Image into;
  move_perspective(
      waves({40, 100}), multiply({1, 0, 300, 0, 1, 0, 0, 0, 1}, tilted), {9, 9}, kBorder, into);
  EXPECT_EQ(into.row(0, 4)[4], kBorder[0]);
  EXPECT_TRUE(move_perspective(Box{10, 10, 40, 20}, tilted).has_value());
  EXPECT_FALSE(move_perspective(Box{10, 10, 50, 20}, tilted).has_value());
  EXPECT_FALSE(move_perspective(Box{60, 10, 70, 20}, tilted).has_value());
}

TEST(PerspectiveTest, AnInverseBringsBack) {
  const Matrix3 matrix{1.2, 0.3, -7, -0.2, 0.8, 3, 1e-3, -2e-3, 1};
  const Matrix3 product = multiply(matrix, inverse(matrix));
  for (std::size_t i = 0; i < product.size(); ++i)
    EXPECT_NEAR(product[i], kIdentity3[i], 1e-12);
}

TEST(PerspectiveTest, InvalidMatrixOrSizeThrowsLogicError) {
  Image into;
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(move_perspective(waves({3, 3}), Matrix3{}, {3, 3}, kBorder, into), std::logic_error);
  EXPECT_THROW(
      move_perspective(waves({3, 3}), {none, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3}, kBorder, into),
      std::logic_error);
  EXPECT_THROW(move_perspective(Image{3, 0, 0, {}}, kIdentity3, {3, 3}, kBorder, into),
               std::logic_error);
  EXPECT_THROW(move_perspective(waves({3, 3}), kIdentity3, {0, 3}, kBorder, into),
               std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
