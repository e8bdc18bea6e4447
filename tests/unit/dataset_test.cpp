#include "worker/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/error.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::ElementsAreArray;
using testing::HasSubstr;

const std::filesystem::path kRealData = DDP_TESTS_DIR "/../../shared/data";

std::string refusal(const DataRequest& request) {
  try {
    load_data_set(request);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

std::string idx_images(char count) {
  std::string bytes{"\0\0\10\3\0\0\0?\0\0\0\1\0\0\0\2", 16};
  bytes[7] = count;
  return bytes + std::string(static_cast<std::size_t>(count) * 2, 'p');
}

std::string idx_labels(char count) {
  std::string bytes{"\0\0\10\1\0\0\0?", 8};
  bytes[7] = count;
  return bytes + std::string(static_cast<std::size_t>(count), '\3');
}

void write_small_set(const Scratch& scratch) {
  scratch.write("train-images-idx3-ubyte", idx_images(5));
  scratch.write("train-labels-idx1-ubyte", idx_labels(5));
  scratch.write("t10k-images.idx3-ubyte", idx_images(3));
  scratch.write("t10k-labels.idx1-ubyte", idx_labels(3));
}

TEST(DataSet, ReadsFilesWithADashOrADot) {
  const Scratch scratch;
  write_small_set(scratch);
  const DataSet set = load_data_set({.name = "mnist", .root = scratch.path()});
  EXPECT_EQ(set.train.count, 5);
  EXPECT_EQ(set.train.height, 1);
  EXPECT_EQ(set.train.width, 2);
  EXPECT_EQ(set.test.count, 3);
  EXPECT_EQ(set.test.labels, std::vector<std::uint8_t>(3, 3));
}

TEST(DataSet, TakesTheFirstOnesAskedFor) {
  const Scratch scratch;
  write_small_set(scratch);
  DataRequest request{.name = "mnist", .root = scratch.path(), .train_size = 2, .test_size = 3};
  const DataSet set = load_data_set(request);
  EXPECT_EQ(set.train.count, 2);
  EXPECT_EQ(set.train.pixels.size(), 4U);
  EXPECT_EQ(set.train.labels.size(), 2U);
  EXPECT_EQ(set.test.count, 3);
  request.test_size = 4;
  EXPECT_EQ(refusal(request),
            "data.test_size=4: mnist test has 3 images. Give a number from 1 to 3.");
}

TEST(DataSet, Y6MissingFilesAreAllNamedWithWhatWasLookedFor) {
  const Scratch scratch;
  scratch.write("train-images-idx3-ubyte", idx_images(5));
  const std::string message = refusal({.name = "mnist", .root = scratch.path()});
  EXPECT_THAT(message, Not(HasSubstr("no train-images file")));
  EXPECT_THAT(message,
              AllOf(HasSubstr("no train-labels file in " + scratch.path().string()),
                    HasSubstr("looked for train-labels-idx1-ubyte, train-labels-idx1-ubyte.gz, "
                              "train-labels.idx1-ubyte, train-labels.idx1-ubyte.gz"),
                    HasSubstr("no t10k-images file"),
                    HasSubstr("no t10k-labels file"),
                    HasSubstr("Set data.root")));
}

TEST(DataSet, Y6MissingRootSaysWhatToDo) {
  EXPECT_THAT(refusal({.name = "mnist"}),
              AllOf(HasSubstr("data.root is not set"), HasSubstr("data.name=digits")));
  EXPECT_THAT(refusal({.name = "mnist", .root = "/no/such/place"}),
              HasSubstr("/no/such/place does not exist"));
  EXPECT_THAT(refusal({.name = "mnist", .root = "/dev/null"}), HasSubstr("is no directory"));
}

TEST(DataSet, UnknownNameListsTheKnownOnes) {
  EXPECT_THAT(refusal({.name = "imagenet"}), HasSubstr("Allowed: digits, mnist, fashion-mnist"));
}

TEST(DataSet, DigitsComeInTheAskedNumberFromTheSeed) {
  const DataSet set =
      load_data_set({.name = "digits", .seed = 5, .train_size = 30, .test_size = 20});
  EXPECT_EQ(set.train.count, 30);
  EXPECT_EQ(set.test.count, 20);
  EXPECT_EQ(load_data_set({.name = "digits", .seed = 5, .train_size = 30, .test_size = 20}).train,
            set.train);
  EXPECT_NE(load_data_set({.name = "digits", .seed = 6, .train_size = 30, .test_size = 20}).train,
            set.train);
  EXPECT_EQ(load_data_set({.name = "digits"}).train.count, kDigitsTrainSize);
}

// The published files. Facts: ../shared/data/README.md.
class RealFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kRealData))
      GTEST_SKIP() << "no ../shared/data beside the checkout";
  }

  static double mean_pixel(const ImageSet& set) {
    const std::uint64_t sum =
        std::accumulate(set.pixels.begin(), set.pixels.end(), std::uint64_t{0});
    return static_cast<double>(sum) / static_cast<double>(set.pixels.size()) / 255;
  }
};

TEST_F(RealFiles, MnistIsThePublishedOne) {
  const DataSet set = load_data_set({.name = "mnist", .root = kRealData / "mnist"});
  EXPECT_EQ(set.train.count, 60000);
  EXPECT_EQ(set.test.count, 10000);
  EXPECT_EQ(set.train.height, 28);
  EXPECT_EQ(set.train.width, 28);
  EXPECT_THAT(std::vector(set.train.labels.begin(), set.train.labels.begin() + 10),
              ElementsAreArray({5, 0, 4, 1, 9, 2, 1, 3, 1, 4}));
  EXPECT_THAT(std::vector(set.test.labels.begin(), set.test.labels.begin() + 10),
              ElementsAreArray({7, 2, 1, 0, 4, 1, 4, 9, 5, 9}));
  std::array<std::int64_t, 10> counts{};
  for (const std::uint8_t label : set.train.labels)
    ++counts.at(label);
  EXPECT_THAT(counts,
              ElementsAreArray({5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}));
  EXPECT_NEAR(mean_pixel(set.train), set.train.mean.at(0), 1e-4);
}

TEST_F(RealFiles, FashionMnistIsThePublishedOne) {
  const DataSet set = load_data_set({.name = "fashion-mnist", .root = kRealData / "fashion-mnist"});
  EXPECT_THAT(std::vector(set.train.labels.begin(), set.train.labels.begin() + 10),
              ElementsAreArray({9, 0, 0, 3, 0, 2, 7, 2, 5, 5}));
  EXPECT_EQ(std::count(set.test.labels.begin(), set.test.labels.end(), 4), 1000);
  EXPECT_NEAR(mean_pixel(set.train), set.train.mean.at(0), 1e-4);
}

}  // namespace
}  // namespace ddp::worker
