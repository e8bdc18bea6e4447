#include "worker/image/geometry.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ddp::worker {
namespace {

/// Grey, its pixels counted from 1.
Image counted(int height, int width) {
  Image image;
  image.reshape(1, {height, width});
  std::iota(image.bytes.begin(), image.bytes.end(), std::uint8_t{1});
  return image;
}

using Bytes = std::vector<std::uint8_t>;

Bytes cropped(const Image& image, const Region& region, const Border& border = {}) {
  Image into;
  crop(image, region, border, into);
  EXPECT_EQ(into.size(), region.size());
  return into.bytes;
}

TEST(GeometryTest, AFlipMirrorsRowsOfAnyLength) {
  for (int width = 1; width < 70; ++width) {
    Image image = counted(2, width);
    const Image before = image;
    flip_horizontal(image);
    for (int y = 0; y < 2; ++y) {
      for (int x = 0; x < width; ++x)
        ASSERT_EQ(image.row(0, y)[x], before.row(0, y)[width - 1 - x]) << width;
    }
  }
}

TEST(GeometryTest, PixelsOutsideAreTheBorder) {
  const Image image = counted(1, 3);
  const Region wide{0, -7, 1, 17};
  EXPECT_EQ(cropped(image, wide, {Border::Kind::edge, {}}),
            (Bytes{1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(cropped(image, wide, {Border::Kind::reflect, {}}),
            (Bytes{2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2}));
  EXPECT_EQ(cropped(image, wide, {Border::Kind::fill, {9, 0, 0}}),
            (Bytes{9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 9, 9, 9, 9, 9}));
}

TEST(GeometryTest, ARegionMayLieOutsideOnEverySide) {
  const Image image = counted(2, 2);
  for (const Region& region :
       {Region{-5, 0, 2, 2}, Region{4, 0, 2, 2}, Region{0, -5, 2, 2}, Region{0, 4, 2, 2}})
    EXPECT_EQ(cropped(image, region, {Border::Kind::fill, {7, 0, 0}}), Bytes(4, 7));
  EXPECT_EQ(cropped(image, {9, -9, 1, 2}, {Border::Kind::edge, {}}), Bytes(2, 3));
}

TEST(GeometryTest, OnePixelIsReflectedAsItself) {
  EXPECT_EQ(cropped(counted(1, 1), {-2, -2, 5, 5}, {Border::Kind::reflect, {}}), Bytes(25, 1));
}

TEST(GeometryTest, EachChannelHasItsColor) {
  Image image;
  image.reshape(3, {1, 1});
  image.bytes = {10, 20, 30};
  EXPECT_EQ(cropped(image, {0, 0, 1, 2}, {Border::Kind::fill, {1, 2, 3}}),
            (Bytes{10, 1, 20, 2, 30, 3}));
  erase(image, {0, 0, 1, 1}, {4, 5, 6});
  EXPECT_EQ(image.bytes, (Bytes{4, 5, 6}));
}

TEST(GeometryTest, EraseIsClippedToTheImage) {
  Image image = counted(2, 3);
  erase(image, {-5, 1, 6, 100}, {0, 0, 0});
  EXPECT_EQ(image.bytes, (Bytes{1, 0, 0, 4, 5, 6}));
  erase(image, {7, 7, 2, 2}, {0, 0, 0});
  erase(image, {-7, -7, 2, 2}, {0, 0, 0});
  EXPECT_EQ(image.bytes, (Bytes{1, 0, 0, 4, 5, 6}));
}

TEST(GeometryTest, AHalfGoesToTheEvenNeighbour) {
  EXPECT_EQ(center_region({7, 9}, {4, 4}), (Region{2, 2, 4, 4}));
  EXPECT_EQ(center_region({2, 3}, {5, 8}), (Region{-1, -2, 5, 8}));
}

TEST(GeometryTest, ACropOfNothingIsAMistakeOfTheCaller) {
  Image into;
  EXPECT_THROW(crop(counted(2, 2), {0, 0, 0, 1}, {}, into), std::logic_error);
  EXPECT_THROW(crop(counted(2, 2), {0, 0, 1, -1}, {}, into), std::logic_error);
  EXPECT_THROW(crop(Image{}, {0, 0, 1, 1}, {}, into), std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
