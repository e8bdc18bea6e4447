// Augmentations by their names in a job file: what they do to pixels, boxes and labels, and that
// they are drawn from what they are given alone.
#include "worker/data/augment/augment.h"
#include "common/job/job_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>

#include "common/error.h"
#include "worker/data/augment/sample_image.h"
#include "worker/data/sets/memory_source.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

/// Four images, 3x6x8, of one value each: 10, 20, 30, 40. Labels 0 to 3.
ImageSet plain_set() {
  ImageSet set;
  set.name = "plain";
  set.count = 4;
  set.channels = 3;
  set.height = 6;
  set.width = 8;
  set.classes = 4;
  for (int i = 1; i <= 4; ++i) {
    set.pixels.insert(set.pixels.end(), 3 * 6 * 8, static_cast<std::uint8_t>(10 * i));
    set.labels.push_back(static_cast<std::uint8_t>(i - 1));
  }
  return set;
}

Sample read(const Source& source, std::int64_t index) {
  Sample sample;
  sample.index = index;
  source.read(index, sample);
  return sample;
}

/// An image whose pixels all differ, with a box of class 7 around columns 1 and 2, rows 2 to 4.
Sample boxed() {
  Sample sample;
  std::vector<std::uint8_t> pixels(6 * 8);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{1});
  sample.input.assign({1, 6, 8}, std::span<const std::uint8_t>(pixels));
  const std::vector<float> box{7, 1, 2, 3, 5};
  sample.targets.resize(1);
  sample.targets[0].assign({1, 5}, std::span(box));
  return sample;
}

std::vector<float> numbers(const Array& array) {
  std::vector<float> values(array.bytes.size() / sizeof(float));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

Augment make(const std::string& name,
             TextMap args = {},
             const DataFacts& data = {},
             std::vector<Augment> before = {}) {
  const Args given("data.augment[0]." + name, std::move(args));
  Augment augment = built_in_augments().at(name)({given, data, std::move(before)});
  given.require_all_read(name);
  return augment;
}

void apply(const Augment& augment, Sample& sample, const Source& source, std::uint64_t seed = 1) {
  Random random(seed, 0, static_cast<std::uint64_t>(sample.index));
  augment(sample, random, source);
}

class Augments : public ::testing::Test {
 protected:
  MemorySource source_{plain_set()};
  const DataFacts& facts_ = source_.facts();
};

TEST_F(Augments, AllAreDrawnFromTheirRandomNumbersAlone) {
  const std::map<std::string, TextMap> lists{
      {"flip", {}},
      {"crop", {{"size", "6"}, {"padding", "2"}}},
      {"random-resized-crop", {{"size", "5"}}},
      {"flip-vertical", {}},
      {"random-perspective", {{"size", "6"}, {"degrees", "10"}}},
      {"hsv", {}},
      {"resize", {{"size", "5"}}},
      {"center-crop", {{"size", "4"}}},
      {"letterbox", {{"size", "7"}}},
      {"rotate", {{"degrees", "30"}}},
      {"affine", {{"degrees", "10"}, {"translate", "0.2"}, {"min_scale", "0.8"}, {"shear", "5"}}},
      {"color-jitter",
       {{"brightness", "0.4"}, {"contrast", "0.4"}, {"saturation", "0.4"}, {"hue", "0.1"}}},
      {"cutout", {{"size", "3"}, {"count", "2"}}},
      {"mixup", {}},
      {"cutmix", {}},
      {"rand-augment", {{"count", "3"}}}};
  for (const auto& [name, factory] : built_in_augments()) {
    if (name == "colour-jitter" || name == "mosaic") continue;  // mosaic_test has boxes for it
    const Augment augment = make(name, lists.at(name), facts_);
    std::set<std::vector<std::uint8_t>> different;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Sample one = read(source_, 2);
      Sample two = read(source_, 2);
      // Pixels that differ, so that each move shows.
      for (std::size_t i = 0; i < one.input.bytes.size(); ++i)
        one.input.bytes[i] = two.input.bytes[i] = static_cast<std::uint8_t>(i * 7 % 251);
      apply(augment, one, source_, seed);
      apply(augment, two, source_, seed);
      EXPECT_EQ(one.input, two.input) << name;
      EXPECT_EQ(one.targets, two.targets) << name;
      EXPECT_EQ(one.input.bytes.size(), static_cast<std::size_t>(one.input.count())) << name;
      different.insert(one.input.bytes);
    }
    const bool is_fixed = name == "resize" || name == "center-crop" || name == "letterbox";
    if (is_fixed)
      EXPECT_EQ(different.size(), 1U) << name;
    else
      EXPECT_GT(different.size(), 1U) << name;
  }
}

TEST_F(Augments, TheReferenceNamesThemAll) {
  const auto key = std::ranges::find(job_keys(), "data.augment", &JobKey::path);
  for (const auto& [name, factory] : built_in_augments()) {
    if (name == "colour-jitter") continue;
    EXPECT_THAT(key->help, HasSubstr(" " + name));
  }
}

TEST_F(Augments, AFlipMirrorsPixelsAndBoxes) {
  Sample sample = boxed();
  apply(make("flip", {{"share", "1"}}), sample, source_);
  EXPECT_EQ(sample.input.bytes[0], 8);
  EXPECT_EQ(sample.input.bytes[7], 1);
  EXPECT_THAT(numbers(sample.targets[0]), ::testing::ElementsAre(7, 5, 2, 7, 5));
  Sample same = boxed();
  apply(make("flip", {{"share", "0"}}), same, source_);
  EXPECT_EQ(same.input, boxed().input);
}

TEST_F(Augments, AFlipComesAsOftenAsItIsAskedFor) {
  const Augment flip = make("flip", {{"share", "0.25"}});
  int flips = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Sample sample = boxed();
    apply(flip, sample, source_, seed);
    flips += sample.input.bytes[0] == 8 ? 1 : 0;
  }
  EXPECT_NEAR(flips, 500, 80);  // four standard deviations
}

TEST_F(Augments, ACropOfAPaddedImageReachesEveryPlace) {
  const Augment crop = make("crop", {{"size", "6"}, {"padding", "1"}}, facts_);
  std::set<int> firsts;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Sample sample = boxed();
    apply(crop, sample, source_, seed);
    EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{1, 6, 6}));
    firsts.insert(sample.input.bytes[6 + 1]);  // row 1, column 1: never in the border
  }
  // 3 rows x 5 columns of places.
  EXPECT_EQ(firsts.size(), 15U);
}

TEST_F(Augments, ACropDropsBoxesThatAreGone) {
  Sample sample = boxed();
  // The right half; the box is in the left one.
  apply(make("center-crop", {{"size", "2"}}), sample, source_);
  EXPECT_EQ(sample.targets[0].shape, (std::vector<std::int64_t>{0, 5}));
  EXPECT_TRUE(sample.targets[0].bytes.empty());
}

TEST_F(Augments, APartOfARatioThatTheImageHasNotIsOfOnePixelAtLeast) {
  for (const char* const ratio : {"0.01", "100"}) {
    Sample sample = boxed();
    apply(make("random-resized-crop", {{"size", "3"}, {"min_ratio", ratio}, {"max_ratio", ratio}}),
          sample,
          source_);
    EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{1, 3, 3})) << ratio;
  }
}

TEST_F(Augments, AResizeKeepsTheRatio) {
  Sample sample = boxed();
  apply(make("resize", {{"size", "12"}}), sample, source_);
  EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{1, 12, 16}));
  EXPECT_THAT(numbers(sample.targets[0]), ::testing::ElementsAre(7, 2, 4, 6, 10));
  apply(make("resize", {{"height", "3"}, {"width", "4"}}), sample, source_);
  EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{1, 3, 4}));
}

TEST_F(Augments, MixupMixesImagesAndLabelsAlike) {
  const Augment mixup = make("mixup", {{"alpha", "1"}}, facts_);
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Sample sample = read(source_, 0);
    apply(mixup, sample, source_, seed);
    const std::vector<float> shares = numbers(sample.targets[0]);
    ASSERT_EQ(shares.size(), 4U);
    double mean = 0;
    for (std::size_t i = 0; i < shares.size(); ++i)
      mean += shares[i] * 10 * static_cast<double>(i + 1);
    EXPECT_NEAR(sample.input.bytes[0], mean, 0.501);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-6);
    sum += shares[0];
  }
  // Half of it stays, and a quarter of the others are the same image.
  EXPECT_NEAR(sum / 200, 0.625, 0.1);
}

TEST_F(Augments, CutmixCountsPixels) {
  const Augment cutmix = make("cutmix", {}, facts_);
  bool has_cut = false;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Sample sample = read(source_, 3);
    apply(cutmix, sample, source_, seed);
    const std::vector<float> shares = numbers(sample.targets[0]);
    const auto own = std::ranges::count(sample.input.bytes, std::uint8_t{40});
    if (shares[3] < 1) {
      EXPECT_NEAR(shares[3], static_cast<double>(own) / (3 * 6 * 8), 1e-6);
      has_cut = true;
    } else {
      EXPECT_EQ(own, 3 * 6 * 8);
    }
  }
  EXPECT_TRUE(has_cut);
}

TEST_F(Augments, MixingAppliesWhatCameBeforeToTheOtherSampleToo) {
  const Augment black = make("cutout", {{"size", "100"}});
  const Augment mixup = make("mixup", {{"alpha", "1"}}, facts_, {black});
  Sample sample = read(source_, 0);
  apply(black, sample, source_);
  apply(mixup, sample, source_);
  EXPECT_EQ(sample.input.bytes, std::vector<std::uint8_t>(3 * 6 * 8, 0));
}

TEST_F(Augments, ALabelThatIsNotMixedBecomesAShareToo) {
  Sample sample = read(source_, 2);
  apply(make("mixup", {{"share", "0"}}, facts_), sample, source_);
  EXPECT_THAT(numbers(sample.targets[0]), ::testing::ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(sample.input.bytes[0], 30);
}

TEST_F(Augments, BadArgumentsAreNamed) {
  const auto message = [this](const std::string& name, const TextMap& args) {
    try {
      (void)make(name, args, facts_);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(message("crop", {{"padding", "-1"}}), HasSubstr("data.augment[0].crop.padding: -1"));
  EXPECT_THAT(message("crop", {{"border", "blue"}}), HasSubstr("blue is not one of zero, reflect"));
  EXPECT_THAT(message("flip", {{"p", "0.5"}}), HasSubstr("flip does not take it"));
  EXPECT_THAT(message("resize", {{"height", "3"}}), HasSubstr("width: is missing"));
  DataFacts boxes = facts_;
  boxes.has_boxes = true;
  EXPECT_THROW((void)make("cutmix", {}, boxes), UsageError);
}

TEST_F(Augments, FitTakesTheMiddleOfAnySize) {
  Sample sample = boxed();
  apply(fit_to(4), sample, source_);
  EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{1, 4, 4}));
  const Array before = sample.input;
  apply(fit_to(4), sample, source_);
  EXPECT_EQ(sample.input, before) << "it fits already";
}

TEST_F(Augments, LetterboxKeepsAllOfTheImageAndItsBoxes) {
  Sample sample = boxed();  // of 6 x 8
  const std::vector<float> before = numbers(sample.targets[0]);
  apply(make("letterbox", {{"size", "16"}}), sample, source_);
  EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{1, 16, 16}));
  EXPECT_EQ(sample.input.bytes[0], 114);
  const std::vector<float> after = numbers(sample.targets[0]);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    const bool is_vertical = i % 5 == 2 || i % 5 == 4;
    EXPECT_FLOAT_EQ(after[i], i % 5 == 0 ? before[i] : before[i] * 2 + (is_vertical ? 2 : 0));
  }
  const Array once = sample.input;
  apply(letterbox(16), sample, source_);
  EXPECT_EQ(sample.input, once) << "it fits already";
}

TEST_F(Augments, OtherInputsThanImagesAreRefused) {
  Sample sample;
  const std::vector<float> line{1, 2, 3};
  sample.input.assign({3}, std::span(line));
  EXPECT_THROW(apply(make("flip", {{"share", "1"}}), sample, source_), UsageError);
}

}  // namespace
}  // namespace ddp::worker
