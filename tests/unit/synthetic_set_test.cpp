// Images of random bytes, for measurements.
#include "worker/data/sets/synthetic_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "common/error.h"

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DataRequest request(TextMap args = {}, int image_size = 8) {
  DataRequest request{.name = "synthetic", .train_size = 4000, .test_size = 10};
  request.args = Args("data.args", std::move(args));
  request.image_size = image_size;
  return request;
}

Sample sample(const Source& source, std::int64_t index) {
  Sample sample;
  source.read(index, sample);
  return sample;
}

std::int64_t label(const Sample& sample) {
  std::int64_t number = 0;
  std::memcpy(&number, sample.targets.at(0).bytes.data(), sizeof number);
  return number;
}

TEST(SyntheticSet, DefaultSizeIsThatOfImageNet) {
  const Sources sources = make_synthetic_set({.name = "synthetic"});
  EXPECT_EQ(sources.train->facts().count, 1281167);
  EXPECT_EQ(sources.test->facts().count, 50000);
  EXPECT_THAT(sources.train->facts().shape, ElementsAre(3, 224, 224));
  EXPECT_EQ(sources.train->facts().classes, 1000);
  EXPECT_EQ(sample(*sources.train, 1281166).input.bytes.size(), 3U * 224 * 224);
}

TEST(SyntheticSet, HasTheSizesClassesAndChannelsOfTheJob) {
  const Sources sources = make_synthetic_set(request({{"classes", "7"}, {"channels", "2"}}));
  EXPECT_EQ(sources.train->facts().count, 4000);
  EXPECT_EQ(sources.test->facts().count, 10);
  EXPECT_THAT(sample(*sources.test, 9).input.shape, ElementsAre(2, 8, 8));
  EXPECT_EQ(sources.train->facts().mean.size(), 2U);
  EXPECT_EQ(sources.train->facts().standard_deviation.size(), 2U);
  EXPECT_THROW(sample(*sources.test, 10), std::out_of_range);
}

TEST(SyntheticSet, AnImageAndItsClassDependOnSeedHalfAndIndexAlone) {
  const Sources first = make_synthetic_set(request());
  const Sources second = make_synthetic_set(request());
  DataRequest other = request();
  other.seed = 2U;
  const Sources third = make_synthetic_set(other);
  EXPECT_EQ(sample(*first.train, 3).input, sample(*second.train, 3).input);
  EXPECT_EQ(sample(*first.train, 3).targets, sample(*second.train, 3).targets);
  EXPECT_NE(sample(*first.train, 3).input, sample(*first.train, 4).input);
  EXPECT_NE(sample(*first.train, 3).input, sample(*first.test, 3).input);
  EXPECT_NE(sample(*first.train, 3).input, sample(*third.train, 3).input);
  EXPECT_EQ(first.train->facts(), second.train->facts());
  EXPECT_NE(first.train->facts(), third.train->facts());
}

TEST(SyntheticSet, ClassesAndBytesAreEven) {
  const Sources sources = make_synthetic_set(request({{"classes", "4"}}));
  std::array<int, 4> classes{};
  double sum = 0;
  for (std::int64_t i = 0; i < 4000; ++i) {
    const Sample one = sample(*sources.train, i);
    ++classes.at(static_cast<std::size_t>(label(one)));
    EXPECT_EQ(sources.train->label(i), label(one));
    sum += one.input.bytes.front();
  }
  for (const int count : classes)
    EXPECT_NEAR(count, 1000, 150);
  EXPECT_NEAR(sum / 4000, 127.5, 5);
}

TEST(SyntheticSet, RefusesWhatIsNoNumberOfClasses) {
  try {
    make_synthetic_set(request({{"classes", "0"}}));
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("data.args.classes"));
  }
}

}  // namespace
}  // namespace ddp::worker
