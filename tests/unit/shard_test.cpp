#include "worker/plan/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::uint64_t hash_of(const std::vector<std::int64_t>& samples) {
  std::uint64_t value = 0;
  for (const std::int64_t sample : samples)
    value = value * 1000003 + static_cast<std::uint64_t>(sample) + 1;
  return value;
}

// One line of sampler_vectors.txt; tests/interop/make_sampler_vectors.py says what it means.
struct Vector {
  ShardOptions options;
  std::int64_t epoch = 0;
  std::size_t count = 0;
  std::uint64_t hash = 0;
  std::vector<std::int64_t> head;
};

Vector parse_vector(const std::string& line) {
  Vector vector;
  ShardOptions& options = vector.options;
  std::istringstream text(line);
  char bar = 0;
  text >> options.size >> options.world_size >> options.rank >> options.seed >> vector.epoch >>
      options.shuffle >> options.drop_last >> bar >> vector.count >> vector.hash >> bar;
  EXPECT_TRUE(text.good() || vector.count == 0) << line;
  for (std::int64_t sample = 0; text >> sample;)
    vector.head.push_back(sample);
  return vector;
}

TEST(Shard, EqualsPythonsDistributedSampler) {
  std::ifstream file(DDP_TESTS_DIR "/unit/sampler_vectors.txt");
  int compared = 0;
  for (std::string line; std::getline(file, line); ++compared) {
    const Vector expected = parse_vector(line);
    const std::vector<std::int64_t> samples = shard(expected.options, expected.epoch);
    ASSERT_EQ(samples.size(), expected.count) << line;
    ASSERT_EQ(shard_size(expected.options), std::ssize(samples)) << line;
    ASSERT_EQ(hash_of(samples), expected.hash) << line;
    const auto head = std::min<std::ptrdiff_t>(std::ssize(samples), 16);
    ASSERT_EQ(std::vector(samples.begin(), samples.begin() + head), expected.head) << line;
  }
  EXPECT_GE(compared, 100) << "sampler_vectors.txt is missing or cut off";
}

TEST(Shard, FewerSamplesThanRanksAreRepeatedOrDropped) {
  ShardOptions options{.size = 2, .world_size = 7, .rank = 6, .shuffle = false};
  EXPECT_THAT(shard(options, 0), ElementsAre(0));
  options.rank = 5;
  EXPECT_THAT(shard(options, 0), ElementsAre(1));
  options.drop_last = true;
  EXPECT_THAT(shard(options, 0), IsEmpty());
}

TEST(Shard, EveryEpochHasItsOwnOrder) {
  const ShardOptions options{.size = 100, .seed = 1};
  EXPECT_EQ(shard(options, 3), shard(options, 3));
  EXPECT_NE(shard(options, 3), shard(options, 4));
  // Python adds the epoch to the seed, so the two are interchangeable.
  EXPECT_EQ(shard(options, 3), shard({.size = 100, .seed = 2}, 2));
}

TEST(Shard, RefusesWhatTheJobCheckLetsNeverThrough) {
  EXPECT_THROW(shard({.size = 0}, 0), std::logic_error);
  EXPECT_THROW(shard({.size = 1, .world_size = 2, .rank = 2}, 0), std::logic_error);
  EXPECT_THROW(shard({.size = kMaxShardedSize + 1}, 0), std::logic_error);
}

TEST(EvaluationShard, CoversEverySampleOnce) {
  for (const std::int64_t size : {0, 1, 5, 10, 11}) {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<std::int64_t> part = evaluation_shard(size, 4, rank);
      EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(std::ssize(all), size);
    for (std::int64_t i = 0; i < size; ++i)
      EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
  }
  EXPECT_THAT(evaluation_shard(10, 4, 1), ElementsAre(1, 5, 9));
  EXPECT_THAT(evaluation_shard(2, 4, 3), IsEmpty());
}

TEST(Shard, BatchesHaveAllSamplesInTheirOrder) {
  const std::vector<std::int64_t> samples{4, 1, 3, 9, 7};
  using Batches = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(in_batches(samples, 2), (Batches{{4, 1}, {3, 9}, {7}}));
  EXPECT_EQ(in_batches(samples, 5), (Batches{samples}));
  EXPECT_EQ(in_batches(samples, 256), (Batches{samples}));
  EXPECT_EQ(in_batches({}, 3), Batches{});
}

}  // namespace
}  // namespace ddp::worker
