#include "worker/image/axis_aligned.h"

#include <gtest/gtest.h>

#include <random>

namespace ddp::worker {
namespace {

constexpr Color kAlignedBorder{114, 100, 7};
constexpr Color kAlignedGround{30, 200, 60};

class AxisAligned : public ::testing::Test {
 protected:
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(bits_()) / 0x1p32;
  }
  int below(int count) { return static_cast<int>(bits_() % static_cast<unsigned>(count)); }

  Image noise(int channels, ImageSize size) {
    Image image;
    image.reshape(channels, size);
    for (std::uint8_t& byte : image.bytes)
      byte = static_cast<std::uint8_t>(bits_());
    return image;
  }

  /// Four pieces around a point, some of them partly outside, or wholly.
  Collage draw_collage(int channels, ImageSize size, std::vector<Image>& images) {
    Collage collage{channels, size, kAlignedGround, {}};
    const int down = below(size.height);
    const int right = below(size.width);
    images.clear();
    for (int i = 0; i < 4; ++i) {
      images.push_back(noise(channels, {1 + below(size.height), 1 + below(size.width)}));
      const ImageSize own = images.back().size();
      collage.pieces.push_back(
          {{}, own, i < 2 ? down - own.height : down, i % 2 == 0 ? right - own.width : right});
    }
    for (std::size_t i = 0; i < 4; ++i)
      collage.pieces[i].bytes = images[i].bytes;
    return collage;
  }

  std::mt19937 bits_{1};
};

TEST_F(AxisAligned, ACollageHasThePixelsOfItsCanvas) {
  std::vector<Image> images;
  Image canvas;
  Image wanted;
  Image into;
  for (int i = 0; i < 400; ++i) {
    const ImageSize size{1 + below(90), 1 + below(90)};
    const Collage collage = draw_collage(i % 2 == 0 ? 3 : 1, size, images);
    paint(collage, canvas);
    const double across = uniform(0.3, 3) * (i % 7 == 0 ? -1 : 1);
    const double down = i % 3 == 0 ? uniform(-2, 2) : across;
    const Matrix3 matrix{across, 0, uniform(-40, 60), 0, down, uniform(-40, 60), 0, 0, 1};
    move_perspective(canvas, matrix, {70, 60}, kAlignedBorder, wanted);
    move_perspective(collage, matrix, {70, 60}, kAlignedBorder, into);
    ASSERT_EQ(into, wanted) << i;
  }
}

TEST_F(AxisAligned, ATurnedCollageHasThePixelsOfItsCanvas) {
  std::vector<Image> images;
  Image canvas;
  Image wanted;
  Image into;
  for (int i = 0; i < 20; ++i) {
    const Collage collage = draw_collage(3, {50, 60}, images);
    paint(collage, canvas);
    const Matrix3 matrix{0.9, uniform(-0.4, 0.4), 3, uniform(-0.4, 0.4), 0.8, 4, 1e-3, 0, 1};
    move_perspective(canvas, matrix, {40, 40}, kAlignedBorder, wanted);
    move_perspective(collage, matrix, {40, 40}, kAlignedBorder, into);
    ASSERT_EQ(into, wanted) << i;
  }
}

TEST_F(AxisAligned, PixelsAreThoseOfTheGeneralWay) {
  // A turn by so little that nothing moves, but the rows are not rows any more.
  constexpr double kLittle = 1e-12;
  Image aligned;
  Image general;
  for (int i = 0; i < 60; ++i) {
    const Image from = noise(3, {20 + below(60), 20 + below(60)});
    Matrix3 matrix{
        uniform(0.4, 3), 0, uniform(-20, 30), 0, uniform(0.4, 3), uniform(-20, 30), 0, 0, 1};
    move_perspective(from, matrix, {50, 70}, kAlignedBorder, aligned);
    matrix[1] = kLittle;
    move_perspective(from, matrix, {50, 70}, kAlignedBorder, general);
    ASSERT_EQ(aligned, general) << i;
  }
}

TEST_F(AxisAligned, RotationsTiltsAndHorizonsAreNot) {
  EXPECT_TRUE(is_axis_aligned(kIdentity3));
  EXPECT_TRUE(is_axis_aligned({-2, 0, 5, 0, 0.1, 7, 0, 0, 3}));
  for (const std::size_t i : {1U, 3U, 6U, 7U}) {
    Matrix3 matrix = kIdentity3;
    matrix[i] = 1e-9;
    EXPECT_FALSE(is_axis_aligned(matrix)) << i;
  }
  EXPECT_FALSE(is_axis_aligned({1, 0, 0, 0, 1, 0, 0, 0, -1}));
}

}  // namespace
}  // namespace ddp::worker
