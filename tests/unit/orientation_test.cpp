// Photos that their EXIF data turn.
#include "worker/image/orientation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<std::uint8_t>;

void append(Bytes& to, const Bytes& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// A JPEG's beginning with one EXIF tag before that of the orientation, high bytes first.
Bytes jpeg_with(std::uint8_t number, std::uint8_t type = 3) {
  Bytes tiff{'M', 'M', 0, 42, 0, 0, 0, 8, 0, 2};
  append(tiff, {0x01, 0x0F, 0, 2, 0, 0, 0, 1, 'x', 0, 0, 0});
  append(tiff, {0x01, 0x12, 0, type, 0, 0, 0, 1, 0, number, 0, 0});
  Bytes file{0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2};
  append(file, {0xFF, 0xFF, 0xE1, 0, static_cast<std::uint8_t>(8 + tiff.size())});
  append(file, {'E', 'x', 'i', 'f', 0, 0});
  append(file, tiff);
  append(file, {0xFF, 0xDA, 0, 2});
  return file;
}

TEST(OrientationTest, OrientationIsFoundAmongOtherSegmentsAndTags) {
  for (std::uint8_t number = 1; number <= 8; ++number)
    EXPECT_EQ(static_cast<int>(read_orientation(jpeg_with(number))), number);
}

TEST(OrientationTest, LowBytesMayComeFirst) {
  Bytes file{0xFF, 0xD8, 0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0};
  append(file, {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0});
  append(file, {0x12, 0x01, 3, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(read_orientation(file), Orientation::three_quarter_turn);
}

TEST(OrientationTest, NonsenseIsUpright) {
  EXPECT_EQ(read_orientation({}), Orientation::upright);
  EXPECT_EQ(read_orientation(jpeg_with(0)), Orientation::upright);
  EXPECT_EQ(read_orientation(jpeg_with(9)), Orientation::upright);
  EXPECT_EQ(read_orientation(jpeg_with(6, 7)), Orientation::upright);  // a type that it has not
  const Bytes whole = jpeg_with(6);
  // Each byte another one, and each end: as it was, or upright, and never outside of the file.
  for (std::size_t i = 0; i < whole.size(); ++i) {
    (void)read_orientation(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i)));
    for (const int value : {0, 1, 0x7F, 0xFF}) {
      Bytes file = whole;
      file[i] = static_cast<std::uint8_t>(value);
      EXPECT_LE(static_cast<int>(read_orientation(file)), 8);
    }
  }
}

TEST(OrientationTest, PixelsComeWhereTheirNumberSays) {
  // a b c
  // d e f
  Image file;
  file.reshape(1, {2, 3});
  std::iota(file.bytes.begin(), file.bytes.end(), 'a');
  const std::vector<std::string> seen{
      "abcdef", "cbafed", "fedcba", "defabc", "adbecf", "daebfc", "fcebda", "cfbead"};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto orientation = static_cast<Orientation>(i + 1);
    Image image = file;
    orient(image, orientation);
    EXPECT_EQ(std::string(image.bytes.begin(), image.bytes.end()), seen[i]) << i + 1;
    EXPECT_EQ(image.size(), oriented_size(file.size(), orientation)) << i + 1;
    EXPECT_EQ(image.size(), (i < 4 ? ImageSize{2, 3} : ImageSize{3, 2})) << i + 1;
  }
}

TEST(OrientationTest, EveryPlaneIsTurned) {
  Image image;
  image.reshape(3, {1, 2});
  image.bytes = {1, 2, 3, 4, 5, 6};
  orient(image, Orientation::quarter_turn);
  EXPECT_EQ(image.size(), (ImageSize{2, 1}));
  EXPECT_THAT(image.bytes, ElementsAre(1, 2, 3, 4, 5, 6));
  orient(image, Orientation::upside_down_mirror);
  EXPECT_THAT(image.bytes, ElementsAre(2, 1, 4, 3, 6, 5));
}

}  // namespace
}  // namespace ddp::worker
