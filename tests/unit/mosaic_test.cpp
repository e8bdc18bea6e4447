// What a training of detectors does to its images: mosaics, perspective, mixtures, and that boxes
// stay around their pixels.
#include "worker/data/augment/mosaic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "common/error.h"
#include "worker/data/augment/random_perspective.h"
#include "worker/data/augment/sample_image.h"
#include "worker/data/loading/cached_source.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

constexpr std::uint8_t kPainted = 250;

using Row = std::array<float, kBoxRow>;

std::vector<Row> rows_of(const Sample& sample) {
  const Array& boxes = sample.targets.at(0);
  std::vector<Row> rows(static_cast<std::size_t>(boxes.shape.at(0)));
  EXPECT_EQ(boxes.bytes.size(), rows.size() * sizeof(Row));
  if (!rows.empty()) std::memcpy(rows.data(), boxes.bytes.data(), boxes.bytes.size());
  return rows;
}

/// Images of many sizes, black but for one rectangle each, of image i % 3's own channel, which is
/// the box and its class. Some have none, some are of one pixel, and some are bad.
class Rectangles : public Source {
 public:
  explicit Rectangles(std::int64_t count, std::int64_t bad_every = 0) : bad_every_(bad_every) {
    facts_.name = "rectangles";
    facts_.count = count;
    facts_.shape = {3, kSide, kSide};
    facts_.classes = 3;
    facts_.mean = {0, 0, 0};
    facts_.standard_deviation = {1, 1, 1};
    facts_.has_boxes = true;
    facts_.has_varying_size = true;
  }
  static constexpr int kSide = 64;

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  void read(std::int64_t index, Sample& into) const override {
    if (bad_every_ > 0 && index % bad_every_ == 1)
      throw BadSample("image " + std::to_string(index));
    Random random(7, 0, static_cast<std::uint64_t>(index));
    const auto side = [&] { return 20 + static_cast<int>(random.below(100)); };
    const bool is_tiny = index % 11 == 5;
    const int height = is_tiny ? 1 : side();
    const int width = is_tiny ? 1 : side();
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * height * width));
    std::vector<float> rows;
    if (index % 7 != 3) {
      const int left = is_tiny ? 0 : width / 5;
      const int top = is_tiny ? 0 : height / 4;
      const int right = is_tiny ? 1 : width - width / 6;
      const int bottom = is_tiny ? 1 : height - height / 5;
      const auto channel = static_cast<int>(index % 3);
      for (int y = top; y < bottom; ++y) {
        for (int x = left; x < right; ++x)
          pixels[static_cast<std::size_t>((channel * height + y) * width + x)] = kPainted;
      }
      rows = {static_cast<float>(channel),
              static_cast<float>(left),
              static_cast<float>(top),
              static_cast<float>(right),
              static_cast<float>(bottom)};
    }
    into.input.assign({3, height, width}, std::span<const std::uint8_t>(pixels));
    into.targets.resize(1);
    into.targets[0].assign({static_cast<std::int64_t>(rows.size()) / kBoxRow, kBoxRow},
                           std::span<const float>(rows));
  }

 private:
  DataFacts facts_;
  std::int64_t bad_every_;
};

Augment make(const std::string& name,
             const Source& source,
             TextMap args = {},
             std::vector<Augment> before = {},
             std::int64_t epochs = 0) {
  const Args given("data.augment[0]." + name, std::move(args));
  Augment augment =
      built_in_augments().at(name)({given, source.facts(), std::move(before), epochs});
  given.require_all_read(name);
  return augment;
}

/// What a job file of a detector names.
std::vector<Augment> usual(const Source& source, std::int64_t epochs = 0) {
  std::vector<Augment> list{make("mosaic", source, {}, {}, epochs)};
  list.push_back(make("random-perspective", source, {{"degrees", "5"}, {"shear", "2"}}, list));
  list.push_back(make("hsv", source));
  list.push_back(make("flip", source));
  list.push_back(make("mixup", source, {{"share", "0.3"}}, list, epochs));
  list.push_back(fit(source.facts()));
  return list;
}

Sample augmented(const Source& source,
                 std::span<const Augment> list,
                 std::int64_t index,
                 std::uint64_t epoch = 0,
                 std::uint64_t seed = 1) {
  Sample sample;
  sample.index = index;
  Random random(seed, epoch, static_cast<std::uint64_t>(index));
  read_augmented(source, index, list, random, sample);
  return sample;
}

/// Around the pixels of a channel that are painted, at least to a half.
Box painted(const Sample& sample, std::size_t channel) {
  const auto height = static_cast<std::size_t>(sample.input.shape[1]);
  const auto width = static_cast<std::size_t>(sample.input.shape[2]);
  Box box{1e9F, 1e9F, -1, -1};
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      if (sample.input.bytes[(channel * height + y) * width + x] < 160) continue;
      const auto left = static_cast<float>(x);
      const auto top = static_cast<float>(y);
      box = {std::min(box.left, left),
             std::min(box.top, top),
             std::max(box.right, left + 1),
             std::max(box.bottom, top + 1)};
    }
  }
  return box;
}

void expect_around(const Sample& sample, const Row& row, float most, const std::string& what) {
  const Box box = painted(sample, static_cast<std::size_t>(row[0]));
  EXPECT_NEAR(row[1], box.left, most) << what;
  EXPECT_NEAR(row[2], box.top, most) << what;
  EXPECT_NEAR(row[3], box.right, most) << what;
  EXPECT_NEAR(row[4], box.bottom, most) << what;
}

void expect_inside(const Sample& sample) {
  for (const Row& row : rows_of(sample)) {
    for (const float number : row)
      ASSERT_TRUE(std::isfinite(number));
    ASSERT_TRUE(row[0] == 0 || row[0] == 1 || row[0] == 2);
    ASSERT_GE(row[1], 0);
    ASSERT_GE(row[2], 0);
    ASSERT_LE(row[3], static_cast<float>(sample.input.shape[2]));
    ASSERT_LE(row[4], static_cast<float>(sample.input.shape[1]));
    ASSERT_GT(row[3], row[1]);
    ASSERT_GT(row[4], row[2]);
  }
}

TEST(MosaicTest, HasFourImagesAndTheirBoxes) {
  const Rectangles source(3);
  const std::vector<Augment> list{make("mosaic", source)};
  int whole = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Sample sample = augmented(source, list, 0, 0, seed);
    ASSERT_EQ(sample.input.shape, (std::vector<std::int64_t>{3, 128, 128}));
    const std::vector<Row> rows = rows_of(sample);
    EXPECT_LE(rows.size(), 4U);
    EXPECT_EQ(rows.at(0)[0], 0) << "its own box comes first";
    expect_inside(sample);
    // Where a channel has one box alone, it is around all that is painted in it.
    for (const Row& row : rows) {
      const auto same = std::ranges::count_if(rows, [&](const Row& r) { return r[0] == row[0]; });
      if (same != 1) continue;
      // Less than kLeastOfBox of another one may be seen, and has no box.
      const Box all = painted(sample, static_cast<std::size_t>(row[0]));
      whole += std::abs(all.left - row[1]) < 2 && std::abs(all.right - row[3]) < 2 &&
                       std::abs(all.top - row[2]) < 2 && std::abs(all.bottom - row[4]) < 2
                   ? 1
                   : 0;
    }
  }
  EXPECT_GT(whole, 20);
}

TEST(MosaicTest, MosaicIsGreyWhereNoImageIs) {
  const Rectangles source(3);
  const Sample sample = augmented(source, std::vector<Augment>{make("mosaic", source)}, 1);
  EXPECT_GT(std::ranges::count(sample.input.bytes, 114), 1000);
  EXPECT_GT(std::ranges::count(sample.input.bytes, kPainted), 100);
}

TEST(MosaicTest, TheShareAndTheLastEpochsLeaveTheImageAlone) {
  const Rectangles source(20);
  const auto sides = [&](const TextMap& args, std::uint64_t epoch, std::int64_t epochs) {
    const std::vector<Augment> list{make("mosaic", source, args, {}, epochs)};
    const Sample sample = augmented(source, list, 2, epoch);
    return std::max(sample.input.shape[1], sample.input.shape[2]);
  };
  EXPECT_EQ(sides({{"share", "0"}}, 0, 0), 64);
  EXPECT_EQ(sides({}, 89, 100), 128);
  EXPECT_EQ(sides({}, 90, 100), 64);
  EXPECT_EQ(sides({}, 99, 100), 64);
  EXPECT_EQ(sides({{"close", "0"}}, 99, 100), 128);
  EXPECT_EQ(sides({{"close", "3"}}, 6, 10), 128);
  EXPECT_EQ(sides({{"close", "3"}}, 7, 10), 64);
  // There would be no epoch with it.
  EXPECT_EQ(sides({}, 9, 10), 128);
  EXPECT_EQ(sides({}, 1000, 0), 128) << "the number of epochs is not known";
}

TEST(MosaicTest, ABadSampleAmongTheOthersIsDrawnAnew) {
  const Rectangles source(4, 2);  // half of them
  const std::vector<Augment> list = usual(source);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Sample one = augmented(source, list, 0, 0, seed);
    EXPECT_EQ(one.input, augmented(source, list, 0, 0, seed).input);
  }
  // The rest of the set is bad: what is left is the image itself.
  const Rectangles bad(2, 2);
  EXPECT_EQ(augmented(bad, std::vector<Augment>{make("mosaic", bad)}, 0).input.shape[1], 128);
  EXPECT_THROW(augmented(bad, usual(bad), 1), BadSample);
}

TEST(MosaicTest, SamplesRepeatForTheSameNumbersAndBoxesStayInside) {
  const Rectangles source(40);
  const std::vector<Augment> list = usual(source, 30);
  int boxes = 0;
  for (std::int64_t index = 0; index < 40; ++index) {
    for (const std::uint64_t epoch : {0, 1, 25}) {
      const Sample sample = augmented(source, list, index, epoch);
      EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{3, 64, 64}));
      expect_inside(sample);
      boxes += static_cast<int>(rows_of(sample).size());
      const Sample again = augmented(source, list, index, epoch);
      EXPECT_EQ(sample.input, again.input);
      EXPECT_EQ(sample.targets, again.targets);
    }
  }
  EXPECT_GT(boxes, 40);
}

TEST(MosaicTest, ImagesWithoutABoxAreNoTrap) {
  /// All of them are.
  class Empty : public Rectangles {
   public:
    Empty() : Rectangles(5) {}
    void read(std::int64_t index, Sample& into) const override {
      Rectangles::read(index, into);
      into.targets[0].assign({0, kBoxRow}, std::span<const float>());
    }
  };
  const Empty source;
  const std::vector<Augment> list = usual(source);
  for (std::int64_t index = 0; index < 5; ++index)
    EXPECT_EQ(augmented(source, list, index).targets[0].shape,
              (std::vector<std::int64_t>{0, kBoxRow}));
}

TEST(MosaicTest, ManyThreadsInAnyOrderMakeTheSame) {
  const Rectangles source(40, 9);
  const std::vector<Augment> list = usual(source, 12);
  std::vector<Sample> wanted;
  for (std::int64_t index = 2; index < 9; ++index)
    wanted.push_back(augmented(source, list, index, static_cast<std::uint64_t>(index) / 4));
  std::vector<std::vector<Sample>> seen(3, std::vector<Sample>(wanted.size()));
  {
    std::vector<std::jthread> threads;
    for (std::size_t k = 0; k < seen.size(); ++k) {
      threads.emplace_back([&, k] {
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          const std::size_t which = (i * (k + 1) + k) % wanted.size();
          const auto index = static_cast<std::int64_t>(which) + 2;
          seen[k][which] = augmented(source, list, index, static_cast<std::uint64_t>(index) / 4);
        }
      });
    }
  }
  for (const std::vector<Sample>& samples : seen) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(samples[i].input, wanted[i].input);
      EXPECT_EQ(samples[i].targets, wanted[i].targets);
    }
  }
}

/// Step by step, as if no augmentation knew of another.
Sample one_by_one(const Source& source,
                  std::span<const Augment> list,
                  std::int64_t index,
                  std::uint64_t epoch) {
  Sample sample;
  sample.index = index;
  Random random(1, epoch, static_cast<std::uint64_t>(index));
  source.read(index, sample);
  for (const Augment& augment : list)
    augment(sample, random, source);
  return sample;
}

TEST(MosaicTest, MovedAsItIsReadItIsTheSameAsStepByStep) {
  const auto source = std::make_shared<Rectangles>(40, 9);
  const CachedSource half(source, 300'000);
  const CachedSource all(source, 10'000'000);
  for (const TextMap& args : {TextMap{}, TextMap{{"degrees", "20"}, {"perspective", "0.001"}}}) {
    std::vector<Augment> list{make("mosaic", *source, {{"share", "0.8"}}, {}, 12)};
    list.push_back(make("random-perspective", *source, args, list));
    list.push_back(make("flip", *source));
    for (std::int64_t index = 0; index < 40; ++index) {
      if (index % 9 == 1) continue;  // a bad one
      for (const std::uint64_t epoch : {0, 1, 11}) {
        const Sample wanted = one_by_one(*source, list, index, epoch);
        for (const Source* const from :
             std::initializer_list<const Source*>{&*source, &half, &all}) {
          const Sample sample = augmented(*from, list, index, epoch);
          ASSERT_EQ(sample.input, wanted.input) << index;
          ASSERT_EQ(sample.targets, wanted.targets) << index;
        }
      }
    }
  }
}

TEST(MosaicTest, CachedSamplesAreNotChanged) {
  /// Images of the size that a mosaic takes as they are.
  class Square : public Rectangles {
   public:
    Square() : Rectangles(6) {}
    void read(std::int64_t index, Sample& into) const override {
      const std::vector<std::uint8_t> pixels(3 * 64 * 64, static_cast<std::uint8_t>(40 * index));
      into.input.assign({3, 64, 64}, std::span(pixels));
      const std::vector<float> row{static_cast<float>(index % 3), 5, 6, 60, 50};
      into.targets.resize(1);
      into.targets[0].assign({1, kBoxRow}, std::span(row));
    }
  };
  const auto source = std::make_shared<Square>();
  const CachedSource cached(source, 10'000'000);
  const std::vector<Augment> list = usual(*source);
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t index = 0; index < 6; ++index) {
      const Sample wanted = augmented(*source, list, index);
      const Sample sample = augmented(cached, list, index);
      EXPECT_EQ(sample.input, wanted.input);
      EXPECT_EQ(sample.targets, wanted.targets);
    }
  }
  for (std::int64_t index = 0; index < 6; ++index) {
    Sample wanted;
    source->read(index, wanted);
    ASSERT_NE(cached.kept(index), nullptr);
    EXPECT_EQ(cached.kept(index)->input, wanted.input);
    EXPECT_EQ(cached.kept(index)->targets, wanted.targets);
  }
}

TEST(MosaicTest, MosaicNeedsBoxes) {
  DataFacts labels;
  labels.name = "labels";
  labels.shape = {3, 8, 8};
  labels.classes = 3;
  const Args args("data.augment[0].mosaic", {});
  try {
    (void)built_in_augments().at("mosaic")({args, labels, {}});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a mosaic needs boxes, and labels has none"));
  }
}

TEST(RandomPerspectiveTest, BoxesStayAroundTheirPixels) {
  const Rectangles source(60);
  const TextMap widest{
      {"degrees", "40"}, {"scale", "0.5"}, {"shear", "10"}, {"perspective", "0.001"}};
  const TextMap straight{{"translate", "0.3"}, {"scale", "0.9"}};
  int boxes = 0;
  for (const TextMap& args : {straight, widest, TextMap{}}) {
    const std::vector<Augment> list{make("random-perspective", source, args)};
    for (std::int64_t index = 0; index < 60; ++index) {
      const Sample sample = augmented(source, list, index);
      ASSERT_EQ(sample.input.shape, (std::vector<std::int64_t>{3, 64, 64}));
      expect_inside(sample);
      for (const Row& row : rows_of(sample)) {
        ++boxes;
        // A tilted rectangle's corners may be cut off where the image ends, and thin ones vanish.
        const bool is_at_edge = row[1] == 0 || row[2] == 0 || row[3] == 64 || row[4] == 64;
        if (&args == &straight || !is_at_edge) expect_around(sample, row, 3, std::to_string(index));
      }
    }
  }
  EXPECT_GT(boxes, 60);
}

TEST(RandomPerspectiveTest, WithoutAnyMoveItIsALetterbox) {
  const Rectangles source(20);
  const std::vector<Augment> still{
      make("random-perspective", source, {{"translate", "0"}, {"scale", "0"}})};
  const std::vector<Augment> boxed{letterbox(64)};
  for (const std::int64_t index : {0, 1, 2, 4, 6}) {
    const Sample moved = augmented(source, still, index);
    const Sample fitted = augmented(source, boxed, index);
    const std::vector<Row> rows = rows_of(moved);
    const std::vector<Row> wanted = rows_of(fitted);
    ASSERT_EQ(rows.size(), wanted.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      // An odd margin is halved.
      for (std::size_t k = 0; k < rows[i].size(); ++k)
        EXPECT_NEAR(rows[i][k], wanted[i][k], 0.51);
    }
  }
}

TEST(RandomPerspectiveTest, TooSmallRestsOfBoxesAreDropped) {
  const Rectangles source(3);
  const std::vector<Augment> list{
      make("random-perspective", source, {{"translate", "0"}, {"scale", "0"}})};
  const auto kept = [&](const std::vector<float>& box) {
    Sample sample;
    const std::vector<std::uint8_t> pixels(3 * 64 * 64);
    sample.input.assign({3, 64, 64}, std::span<const std::uint8_t>(pixels));
    sample.targets.resize(1);
    sample.targets[0].assign({1, kBoxRow}, std::span(box));
    Random random(1, 0, 0);
    list[0](sample, random, source);
    return sample.targets[0].shape[0] == 1;
  };
  EXPECT_TRUE(kept({0, 1, 1, 60, 4}));
  EXPECT_TRUE(kept({0, 10, 10, 12.5F, 12.5F}));
  EXPECT_FALSE(kept({0, 10, 10, 11.5F, 30})) << "thinner than two pixels";
  EXPECT_TRUE(kept({0, -50, 10, 10, 30})) << "a sixth of it is left";
  EXPECT_FALSE(kept({0, -95, 10, 5, 30})) << "a twentieth of it is left";
}

TEST(MixupTest, KeepsTheBoxesOfBoth) {
  const Rectangles source(12);
  const std::vector<Augment> before{letterbox(64)};
  std::vector<Augment> list = before;
  list.push_back(make("mixup", source, {}, before));
  double painted_sum = 0;
  int both = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Sample sample = augmented(source, list, 0, 0, seed);
    const std::vector<Row> rows = rows_of(sample);
    const Sample alone = augmented(source, before, 0);
    ASSERT_GE(rows.size(), 1U);
    EXPECT_EQ(rows[0], rows_of(alone)[0]);
    if (rows.size() < 2 || rows[1][0] == 0) continue;
    ++both;
    // In the middle of its own rectangle, with black or grey of the other one.
    const auto middle = static_cast<std::size_t>(rows[0][2] + rows[0][4]) / 2 * 64 +
                        static_cast<std::size_t>(rows[0][1] + rows[0][3]) / 2;
    painted_sum += sample.input.bytes[middle];
  }
  ASSERT_GT(both, 20);
  // Beta(32, 32): near a half of each.
  EXPECT_NEAR(painted_sum / both, kPainted / 2.0, 12);
}

TEST(MixupTest, MixupOfBoxesStopsBeforeTheLastEpochs) {
  const Rectangles source(12);
  std::vector<Augment> list{letterbox(64)};
  const Sample alone = augmented(source, list, 0, 95);
  list.push_back(make("mixup", source, {}, list, 100));
  EXPECT_EQ(augmented(source, list, 0, 95).input, alone.input);
  EXPECT_NE(augmented(source, list, 0, 80).input, alone.input);
}

TEST(FlipVerticalTest, TurnsPixelsAndBoxes) {
  const Rectangles source(12);
  const std::vector<Augment> list{make("flip-vertical", source, {{"share", "1"}})};
  for (std::int64_t index = 0; index < 12; ++index) {
    const Sample sample = augmented(source, list, index);
    for (const Row& row : rows_of(sample))
      expect_around(sample, row, 0, std::to_string(index));
  }
}

}  // namespace
}  // namespace ddp::worker
