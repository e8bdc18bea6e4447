#include "worker/image/affine.h"

#include <gtest/gtest.h>

#include <limits>

namespace ddp::worker {
namespace {

Image corner() {
  Image image;
  image.reshape(1, {3, 4});
  image.bytes = {1, 2, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0};
  return image;
}

Image moved(const Affine& affine, Interpolation interpolation = Interpolation::nearest) {
  Image into;
  move_affine(corner(), affine, interpolation, std::nullopt, into);
  return into;
}

TEST(AffineTest, ATranslationMovesRightAndDown) {
  Affine affine;
  affine.translate = {2, 1};
  EXPECT_EQ(moved(affine).bytes, (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 0}));
}

TEST(AffineTest, HalfATurnPutsTheFirstPixelLast) {
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear})
    EXPECT_EQ(moved(rotation(180), interpolation).bytes,
              (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 2, 1}));
}

TEST(AffineTest, TheMatrixSaysWhereAPointGoes) {
  Affine affine;
  affine.angle = 90;
  affine.scale = 2;
  affine.center = {{1, 1}};
  affine.translate = {10, 20};
  const std::array<double, 6> m = affine_matrix(affine, {5, 5});
  // One right of the centre goes two below it, clockwise.
  EXPECT_NEAR(m[0] * 2 + m[1] * 1 + m[2], 11, 1e-12);
  EXPECT_NEAR(m[3] * 2 + m[4] * 1 + m[5], 23, 1e-12);
}

TEST(AffineTest, PixelsFromOutsideTheImageAreBlack) {
  Affine far;
  far.translate = {1e30, -1e30};
  Affine nowhere;
  nowhere.shear = {std::numeric_limits<double>::quiet_NaN(), 0};
  Affine tiny;
  tiny.scale = 1e-300;
  for (const Affine& affine : {far, nowhere, tiny}) {
    for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear})
      EXPECT_EQ(moved(affine, interpolation).bytes, std::vector<std::uint8_t>(12, 0));
  }
}

TEST(AffineTest, AScaleThatIsNotPositiveIsAMistakeOfTheCaller) {
  for (const double scale : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    Affine affine;
    affine.scale = scale;
    EXPECT_THROW(moved(affine), std::logic_error);
  }
}

}  // namespace
}  // namespace ddp::worker
