// Which shape each image of an evaluation has, and which images share a batch.
#include "worker/data/loading/rectangular_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "worker/image/letterbox.h"

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using Batches = std::vector<std::vector<std::int64_t>>;

TEST(RectangularBatches, AnImageHasAsLittleBorderAsMultiplesAllow) {
  EXPECT_EQ(rectangle_of({480, 640}, 640, 32), (ImageSize{480, 640}));
  EXPECT_EQ(rectangle_of({427, 640}, 640, 32), (ImageSize{448, 640}));
  EXPECT_EQ(rectangle_of({640, 427}, 640, 32), (ImageSize{640, 448}));
  EXPECT_EQ(rectangle_of({500, 500}, 640, 32), (ImageSize{640, 640}));
  EXPECT_EQ(rectangle_of({1, 5000}, 640, 32), (ImageSize{32, 640}));
  EXPECT_EQ(rectangle_of({639, 640}, 640, 32), (ImageSize{640, 640}));
  EXPECT_EQ(rectangle_of({70, 100}, 100, 32), (ImageSize{96, 100}));
  EXPECT_EQ(rectangle_of({99, 100}, 100, 32), (ImageSize{100, 100}))
      << "never more than the square";
  // As of the square, but for the border.
  for (int height = 1; height < 400; height += 7) {
    const ImageSize image{height, 300};
    const Letterbox square = fit_letterbox(image, 320);
    EXPECT_EQ(fit_letterbox(image, rectangle_of(image, 320, 32)).resized, square.resized);
  }
}

/// Sizes of many ratios, some of them not known.
std::vector<std::optional<ImageSize>> some_sizes() {
  std::vector<std::optional<ImageSize>> sizes;
  for (int i = 0; i < 103; ++i) {
    sizes.emplace_back(ImageSize{100 + i * 37 % 200, 100 + i * 53 % 150});
    if (i % 20 == 19) sizes.back().reset();
  }
  return sizes;
}

TEST(RectangularBatches, EachImageIsInOneBatchOfItsShapeOnAnyNumberOfRanks) {
  const std::vector<std::optional<ImageSize>> sizes = some_sizes();
  const RectangularBatches rectangles(sizes, 160, 32);
  for (const int ranks : {1, 2, 3, 7, 200}) {
    std::multiset<std::int64_t> seen;
    std::size_t most = 0;
    std::size_t least = sizes.size();
    for (int rank = 0; rank < ranks; ++rank) {
      std::size_t count = 0;
      for (const std::vector<std::int64_t>& batch : rectangles.batches(ranks, rank, 8)) {
        EXPECT_THAT(batch.size(), ::testing::AllOf(::testing::Ge(1u), ::testing::Le(8u)));
        std::set<std::pair<int, int>> shapes;
        for (const std::int64_t sample : batch) {
          const std::optional<ImageSize> size = sizes[static_cast<std::size_t>(sample)];
          const ImageSize shape = size ? rectangle_of(*size, 160, 32) : ImageSize{160, 160};
          shapes.emplace(shape.height, shape.width);
        }
        EXPECT_EQ(shapes.size(), 1u);
        seen.insert(batch.begin(), batch.end());
        count += batch.size();
      }
      most = std::max(most, count);
      least = std::min(least, count);
    }
    EXPECT_EQ(seen.size(), sizes.size()) << ranks;
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), sizes.size()) << ranks;
    EXPECT_LE(most - least, 1u) << ranks;
  }
}

TEST(RectangularBatches, TheLargestComeFirst) {
  const std::vector<std::optional<ImageSize>> sizes{
      ImageSize{10, 100}, ImageSize{100, 100}, std::nullopt, ImageSize{10, 90}, ImageSize{100, 9}};
  EXPECT_EQ(RectangularBatches(sizes, 64, 32).batches(1, 0, 10), (Batches{{1, 2}, {4}, {0, 3}}));
  EXPECT_EQ(RectangularBatches(sizes, 64, 32).batches(1, 0, 1), (Batches{{1}, {2}, {4}, {0}, {3}}));
  EXPECT_EQ(RectangularBatches(sizes, 64, 32).batches(2, 1, 10), (Batches{{2}, {0}}));
  EXPECT_EQ(RectangularBatches({}, 64, 32).batches(1, 0, 10), Batches{});
}

class Grey : public Source {
 public:
  explicit Grey(std::vector<std::optional<ImageSize>> sizes) : sizes_(std::move(sizes)) {
    facts_.count = std::ssize(sizes_);
  }
  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  void read(std::int64_t index, Sample& into) const override {
    const ImageSize size = sizes_.at(static_cast<std::size_t>(index)).value_or(ImageSize{30, 20});
    into.input.type = NumberType::uint8;
    into.input.shape = {3, size.height, size.width};
    into.input.bytes.assign(static_cast<std::size_t>(into.input.count()), 9);
    const std::vector<float> box{
        0, 0, 0, static_cast<float>(size.width), static_cast<float>(size.height)};
    into.targets.resize(1);
    into.targets[0].assign({1, 5}, std::span<const float>(box));
  }

 private:
  std::vector<std::optional<ImageSize>> sizes_;
  DataFacts facts_;
};

TEST(RectangularBatches, ImagesAndBoxesComeToLieInTheirs) {
  const std::vector<std::optional<ImageSize>> sizes{
      ImageSize{40, 80}, ImageSize{50, 80}, std::nullopt};
  const Grey source(sizes);
  const RectangularBatches rectangles(sizes, 64, 32);
  const Augment letterbox = rectangles.letterbox();
  Random random(0, 0, 0);
  const auto fitted = [&](std::int64_t index) {
    Sample sample;
    sample.index = index;
    source.read(index, sample);
    letterbox(sample, random, source);
    std::vector<float> row(5);
    std::memcpy(row.data(), sample.targets[0].bytes.data(), 5 * sizeof(float));
    return std::pair(sample.input.shape, row);
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(fitted(0).first, (Shape{3, 32, 64}));
  EXPECT_THAT(fitted(0).second, ElementsAre(0, 0, 0, 64, 32));
  EXPECT_EQ(fitted(1).first, (Shape{3, 64, 64}));
  EXPECT_THAT(fitted(1).second, ElementsAre(0, 0, 12, 64, 52));
  EXPECT_EQ(fitted(2).first, (Shape{3, 64, 64})) << "whatever it is";
}

}  // namespace
}  // namespace ddp::worker
