#include "worker/image/collage.h"

#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

constexpr Color kGround{7, 8, 9};

/// All bytes of it are different.
std::vector<std::uint8_t> count_from(std::uint8_t first, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes)
    byte = first++;
  return bytes;
}

class CollageTest : public ::testing::Test {
 protected:
  const std::vector<std::uint8_t> left_ = count_from(10, 12);    // [3, 2, 2]
  const std::vector<std::uint8_t> right_ = count_from(100, 27);  // [3, 3, 3]
  // The left one reaches out above, the right one to the right: columns 1 and 2 of 6 are the left
  // one's, 4 and 5 the right one's.
  const Collage collage_{3, {4, 6}, kGround, {{left_, {2, 2}, -1, 1}, {right_, {3, 3}, 0, 4}}};
};

TEST_F(CollageTest, PaintedImageEqualsThePixelFunction) {
  Image image;
  paint(collage_, image);
  EXPECT_EQ(image.size(), collage_.size);
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 6; ++x) {
        int wanted = kGround[static_cast<std::size_t>(channel)];
        if (y == 0 && (x == 1 || x == 2)) wanted = 10 + 4 * channel + 2 + x - 1;
        if (y < 3 && x >= 4) wanted = 100 + 9 * channel + 3 * y + x - 4;
        EXPECT_EQ(image.row(channel, y)[x], wanted) << channel << " " << y << " " << x;
        EXPECT_EQ(collage_.pixel(channel, y, x), wanted) << channel << " " << y << " " << x;
      }
    }
  }
}

TEST_F(CollageTest, FindsARowThatLiesInOnePiece) {
  EXPECT_EQ(collage_.find_row(0, 0, 1, 3), left_.data() + 2);
  EXPECT_EQ(collage_.find_row(2, 1, 5, 6), right_.data() + 22);
  EXPECT_EQ(collage_.find_row(0, 0, 0, 3), nullptr) << "it begins on the ground";
  EXPECT_EQ(collage_.find_row(0, 0, 2, 5), nullptr) << "it lies in both";
  EXPECT_EQ(collage_.find_row(0, 3, 4, 5), nullptr) << "there is no piece in this row";
}

TEST_F(CollageTest, CopiesAnyPartOfARow) {
  Image image;
  paint(collage_, image);
  for (int y = 0; y < 4; ++y) {
    for (int begin = 0; begin <= 6; ++begin) {
      for (int end = begin; end <= 6; ++end) {
        std::vector<std::uint8_t> row(7, 77);
        collage_.copy_row(1, y, begin, end, row.data());
        for (int x = begin; x < end; ++x)
          EXPECT_EQ(row[static_cast<std::size_t>(x - begin)], image.row(1, y)[x]);
        EXPECT_EQ(row[static_cast<std::size_t>(end - begin)], 77);
      }
    }
  }
}

TEST_F(CollageTest, AnImageIsACollage) {
  Image image;
  paint(collage_, image);
  Image again;
  paint(collage_of(image), again);
  EXPECT_EQ(again, image);
}

}  // namespace
}  // namespace ddp::worker
