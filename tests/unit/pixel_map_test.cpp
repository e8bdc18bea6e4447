// What is noted of moved pixels gives the images that the augmentations make.
#include "worker/data/augment/pixel_map.h"

#include <gtest/gtest.h>

#include "named_augments.h"
#include "worker/data/augment/pixel_move.h"
#include "worker/data/sets/memory_source.h"

namespace ddp::worker {
namespace {

/// One image of 3x5x7 whose bytes all differ, none of them black.
ImageSet one_image() {
  ImageSet set{"one", 1, 3, 5, 7, 1, {}, {0}, {}, {}};
  for (int i = 1; i <= 3 * 5 * 7; ++i)
    set.pixels.push_back(static_cast<std::uint8_t>(i));
  return set;
}

/// The image that `map` says, of the pixels of `from`.
Image gather(const Image& from, const PixelMap& map) {
  Image image;
  image.reshape(from.channels, map.size());
  for (int channel = 0; channel < from.channels; ++channel) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const PixelMap::Line& row = map.rows()[static_cast<std::size_t>(y)];
        const PixelMap::Line& column = map.columns()[static_cast<std::size_t>(x)];
        const bool is_black = row.source == kOutside || column.source == kOutside ||
                              (row.erased & column.erased) != 0;
        image.row(channel, y)[x] = is_black ? 0 : from.row(channel, row.source)[column.source];
      }
    }
  }
  return image;
}

TEST(PixelMap, SaysWhereThePixelsOfAnAugmentedImageComeFrom) {
  const MemorySource source(one_image());
  const NamedAugment padded{"crop", {{"size", "6"}, {"padding", "3"}}};
  const NamedAugment reflected{"crop", {{"size", "11"}, {"padding", "9"}, {"border", "reflect"}}};
  const NamedAugment repeated{"crop", {{"size", "4"}, {"padding", "2"}, {"border", "edge"}}};
  const NamedAugment cutout{"cutout", {{"size", "3"}, {"count", "2"}}};
  const std::vector<std::vector<NamedAugment>> lists{
      {},
      {{"flip", {}}},
      {{"flip-vertical", {}}},
      {{"center-crop", {{"size", "9"}}}},
      {padded},
      {reflected},
      {repeated},
      {cutout},
      {padded, reflected, {"flip", {}}},
      {cutout, reflected, cutout, {"flip-vertical", {}}, padded, cutout, repeated},
  };
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::vector<Augment> augments = make_named(lists[i], source.facts());
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      Sample sample;
      Random random(seed, 0, 0);
      read_augmented(source, 0, augments, random, sample);
      PixelMap map;
      map.reset({5, 7});
      Random same(seed, 0, 0);
      for (const Augment& augment : augments)
        augment.target<PixelMove>()->move(map, same);
      const Image image{3, 5, 7, one_image().pixels};
      ASSERT_EQ(gather(image, map).bytes, sample.input.bytes) << "list " << i << ", seed " << seed;
      EXPECT_EQ(same.next(), random.next()) << "as many numbers were drawn";
    }
  }
}

TEST(PixelMap, CountsRectanglesAboveTheMost) {
  PixelMap map;
  map.reset({2, 2});
  for (int i = 0; i <= PixelMap::kMaxErased; ++i)
    map.erase({0, 0, 1, 1});
  EXPECT_EQ(map.erased(), PixelMap::kMaxErased + 1);
  EXPECT_EQ(map.rows()[0].erased, ~std::uint64_t{0});
  EXPECT_EQ(map.rows()[1].erased, 0U);
}

}  // namespace
}  // namespace ddp::worker
