#include "worker/image/resize.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ddp::worker {
namespace {

Image noise(int channels, int height, int width) {
  Image image;
  image.reshape(channels, {height, width});
  std::uint32_t state = 1;
  for (std::uint8_t& value : image.bytes)
    value = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return image;
}

TEST(ResizeTest, TheSameSizeIsTheSameImage) {
  const Image image = noise(3, 31, 47);
  Image into;
  Resizer().resize(image, image.size(), into);
  EXPECT_EQ(into, image);
}

TEST(ResizeTest, HalfTheSizeIsAWeightedMean) {
  Image image;
  image.reshape(1, {1, 6});
  image.bytes = {0, 80, 160, 240, 80, 0};
  Image into;
  Resizer().resize(image, {1, 3}, into);
  // (3 a + 3 b + c) / 7 at the edge, (a + 3 b + 3 c + d) / 8 within.
  EXPECT_EQ(into.bytes, (std::vector<std::uint8_t>{57, 170, 69}));
}

TEST(ResizeTest, AResizerThatIsUsedAgainIsAsANewOne) {
  Resizer used;
  Image into;
  for (const ImageSize from : {ImageSize{50, 70}, {3, 4}, {120, 33}}) {
    for (const ImageSize to : {ImageSize{7, 7}, {64, 64}, {1, 200}}) {
      for (const int channels : {3, 1}) {
        const Image image = noise(channels, from.height, from.width);
        used.resize(image, to, into);
        Image wanted;
        Resizer().resize(image, to, wanted);
        ASSERT_EQ(into, wanted);
      }
    }
  }
}

TEST(ResizeTest, PixelsOutsideTheRegionHaveNoEffect) {
  Image image = noise(3, 40, 50);
  const Region region{7, 9, 20, 30};
  Image before;
  Resizer().resize(image, region, {64, 11}, before);
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const bool is_inside = y >= 7 && y < 27 && x >= 9 && x < 39;
        if (!is_inside) image.row(channel, y)[x] = 255;
      }
    }
  }
  Image after;
  Resizer().resize(image, region, {64, 11}, after);
  EXPECT_EQ(before, after);
}

TEST(ResizeTest, ARegionOutsideIsAMistakeOfTheCaller) {
  const Image image = noise(1, 4, 5);
  Image into;
  for (const Region& region :
       {Region{-1, 0, 2, 2}, {0, -1, 2, 2}, {0, 0, 5, 2}, {0, 4, 2, 2}, {0, 0, 0, 2}})
    EXPECT_THROW(Resizer().resize(image, region, {2, 2}, into), std::logic_error);
  EXPECT_THROW(Resizer().resize(image, {2, 0}, into), std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
