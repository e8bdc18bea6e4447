// Who gets which samples: the whole batch belongs to the run, not to the ranks.
#include "worker/plan/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace ddp::worker {
namespace {

PartitionOptions options_of(std::int64_t size,
                            std::int64_t batch,
                            int ranks,
                            std::int64_t micro_batch) {
  PartitionOptions options;
  options.size = size;
  options.global_batch = batch;
  options.micro_batch = micro_batch;
  options.world_size = ranks;
  options.pad_to_multiple_of = ranks;
  options.seed = 3;
  return options;
}

/// What all ranks get in one step, as a multiset.
std::multiset<std::int64_t> samples_of(PartitionOptions options,
                                       std::int64_t epoch,
                                       std::int64_t step) {
  std::multiset<std::int64_t> samples;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    for (const auto& micro : EpochPartition(options, epoch).step(step).micro_steps)
      samples.insert(micro.begin(), micro.end());
  }
  return samples;
}

// Where all ranks hold equally many: the sampler's list of each rank, cut into batches.
TEST(Partition, EqualSharesAreThoseOfPythonsSamplerAndLoader) {
  for (const std::int64_t size : {96, 100, 101, 7}) {
    for (const int ranks : {1, 2, 4}) {
      const std::int64_t micro_batch = 3;
      const std::int64_t accumulate = 2;
      PartitionOptions options =
          options_of(size, micro_batch * accumulate * ranks, ranks, micro_batch);
      for (options.rank = 0; options.rank < ranks; ++options.rank) {
        ShardOptions sampler{.size = size, .world_size = ranks, .rank = options.rank, .seed = 3};
        std::vector<std::int64_t> dealt;
        const EpochPartition partition(options, 5);
        for (std::int64_t step = 0; step < steps_per_epoch(options); ++step) {
          std::int64_t of_step = 0;
          for (const auto& micro : partition.step(step).micro_steps) {
            EXPECT_LE(micro.size(), static_cast<std::size_t>(micro_batch));
            of_step += static_cast<std::int64_t>(micro.size());
            dealt.insert(dealt.end(), micro.begin(), micro.end());
          }
          EXPECT_EQ(of_step * ranks, partition.step(step).global_batch);
        }
        EXPECT_EQ(dealt, shard(sampler, 5)) << size << " samples, rank " << options.rank;
      }
    }
  }
}

TEST(Partition, AStepIsTheSameSamplesForEveryNumberOfRanks) {
  const std::int64_t size = 128 * 3;
  for (std::int64_t step = 0; step < 3; ++step) {
    const std::multiset<std::int64_t> alone = samples_of(options_of(size, 128, 1, 128), 2, step);
    for (const int ranks : {2, 3, 5, 7})
      EXPECT_EQ(samples_of(options_of(size, 128, ranks, 128), 2, step), alone) << ranks << " ranks";
  }
}

TEST(Partition, SharesDifferByOneAndEveryRankHasAsManyMicroSteps) {
  for (const std::int64_t micro_batch : {43, 22, 15}) {
    PartitionOptions options = options_of(128, 128, 3, micro_batch);
    std::vector<std::size_t> shares;
    std::set<std::size_t> micro_steps;
    for (options.rank = 0; options.rank < 3; ++options.rank) {
      const StepPartition partition = EpochPartition(options, 0).step(0);
      std::size_t share = 0;
      for (const auto& micro : partition.micro_steps) {
        EXPECT_FALSE(micro.empty());
        EXPECT_LE(micro.size(), static_cast<std::size_t>(micro_batch));
        share += micro.size();
      }
      shares.push_back(share);
      micro_steps.insert(partition.micro_steps.size());
      EXPECT_EQ(partition.global_batch, 128);
    }
    EXPECT_EQ(shares, (std::vector<std::size_t>{43, 43, 42}));
    EXPECT_EQ(micro_steps.size(), 1U);
  }
}

TEST(Partition, TheLastStepIsFilledUpToEqualSharesButNotBeyondABatch) {
  // 10 samples in batches of 8 over 3 ranks: 2 are left, filled up to 3.
  EXPECT_EQ(EpochPartition(options_of(10, 8, 3, 3), 0).step(1).global_batch, 3);
  // 23 in batches of 8: 7 are left; 9 would be more than a batch.
  EXPECT_EQ(EpochPartition(options_of(23, 8, 3, 3), 0).step(2).global_batch, 8);
  EXPECT_EQ(steps_per_epoch(options_of(23, 8, 3, 3)), 3);
}

TEST(Partition, EveryRankHasASampleInEveryStepOfAnySize) {
  for (int ranks = 1; ranks <= 7; ++ranks) {
    for (std::int64_t size = 1; size <= 30; ++size) {
      for (std::int64_t batch = ranks; batch <= 2 * ranks + 3; ++batch) {
        for (std::int64_t accumulate = 1; accumulate * ranks <= batch; ++accumulate) {
          const std::int64_t micro_batch = (batch + accumulate * ranks - 1) / (accumulate * ranks);
          PartitionOptions options = options_of(size, batch, ranks, micro_batch);
          for (options.rank = 0; options.rank < ranks; ++options.rank) {
            const EpochPartition partition(options, 1);
            for (std::int64_t step = 0; step < steps_per_epoch(options); ++step) {
              for (const auto& micro : partition.step(step).micro_steps)
                ASSERT_FALSE(micro.empty()) << size << " samples, " << batch << " of " << ranks;
            }
          }
        }
      }
    }
  }
}

// A run goes on with more ranks or fewer: a step is made of the same samples, the short one too.
TEST(Partition, StepsOfARunHoldTheSameSamplesForAnyNumberOfRanks) {
  for (const std::int64_t size : {96, 50, 33, 17}) {
    for (const int first : {1, 2, 3, 4}) {
      const PartitionOptions begun = options_of(size, 16, first, 8);
      for (const int ranks : {1, 2, 3, 5, 8}) {
        PartitionOptions later = begun;
        later.world_size = ranks;
        for (std::int64_t step = 0; step < steps_per_epoch(begun); ++step) {
          const std::multiset<std::int64_t> samples = samples_of(later, 2, step);
          if (samples.size() > static_cast<std::size_t>(ranks)) {
            EXPECT_EQ(samples, samples_of(begun, 2, step)) << size << " " << first << " " << ranks;
          }
        }
      }
    }
  }
}

TEST(Partition, InconsistentSizesAreRefused) {
  EXPECT_THROW(EpochPartition(options_of(10, 2, 3, 1), 0), std::logic_error);
  EXPECT_THROW(EpochPartition(options_of(0, 3, 3, 1), 0), std::logic_error);
}

TEST(PartitionWalk, GoesOverTheBordersOfEpochs) {
  const PartitionOptions options = options_of(50, 20, 2, 4);
  PartitionWalk walk(options, 1, 2);
  for (const auto& [epoch, step] : {std::pair{1, 2}, {2, 0}, {2, 1}, {2, 2}, {3, 0}}) {
    for (const auto& micro : EpochPartition(options, epoch).step(step).micro_steps) {
      const MicroBatch next = walk.next();
      EXPECT_EQ(next.indices, micro) << epoch << ":" << step;
      EXPECT_EQ(next.epoch, epoch);
    }
  }
}

}  // namespace
}  // namespace ddp::worker
