#include "worker/image/box.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddp::worker {
namespace {

TEST(BoxTest, ABoxIsKeptWhenEnoughOfItIsLeft) {
  const Box box{0, 0, 10, 10};
  EXPECT_EQ(crop(box, {5, 5, 100, 100}, 0.25F), (Box{0, 0, 5, 5}));
  EXPECT_EQ(crop(box, {5, 5, 100, 100}, 0.26F), std::nullopt);
  EXPECT_EQ(crop(box, {-3, -2, 100, 100}, 1), (Box{2, 3, 12, 13}));
}

TEST(BoxTest, EmptyBoxesAreDropped) {
  EXPECT_EQ(clip({-5, 0, 0, 10}, {20, 20}), std::nullopt);
  EXPECT_EQ(clip({3, 3, 3, 9}, {20, 20}), std::nullopt);
  EXPECT_EQ(clip({9, 0, 3, 9}, {20, 20}), std::nullopt);
  const float none = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(clip({none, none, none, none}, {20, 20}), std::nullopt);
  EXPECT_EQ(area({9, 0, 3, 9}), 0);
}

TEST(BoxTest, FlipAndResizeKeepItAroundItsPixels) {
  EXPECT_EQ(flip_horizontal({1, 2, 4, 5}, {10, 20}), (Box{16, 2, 19, 5}));
  EXPECT_EQ(resize({1, 2, 4, 5}, {10, 20}, {20, 10}), (Box{0.5, 4, 2, 10}));
}

TEST(BoxTest, AMoveIsNotClippedAndAroundAllCorners) {
  Affine affine;
  affine.translate = {-3, 0};
  EXPECT_EQ(move_affine({1, 2, 4, 5}, affine, {10, 20}), (Box{-2, 2, 1, 5}));
  const Box hull = move_affine({4, 4, 6, 6}, rotation(45), {10, 10});
  EXPECT_NEAR(hull.left, 5 - std::sqrt(2.0), 1e-5);
  EXPECT_NEAR(hull.bottom, 5 + std::sqrt(2.0), 1e-5);
}

}  // namespace
}  // namespace ddp::worker
