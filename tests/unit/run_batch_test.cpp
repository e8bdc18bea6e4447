// The whole batch of a run over any number of ranks.
#include "worker/plan/run_batch.h"
#include "common/job/batch_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "common/error.h"

namespace ddp::worker {
namespace {

TEST(RunBatch, MicroStepsNeverGrow) {
  for (std::int64_t whole = 1; whole <= 40; ++whole) {
    for (std::int64_t per_rank = 1; per_rank <= whole; ++per_rank) {
      for (int ranks = 1; ranks <= whole; ++ranks) {
        const BatchPlan plan = divide({whole, per_rank, 2}, ranks);
        EXPECT_EQ(plan.whole, whole);
        EXPECT_LE(plan.per_rank, per_rank);
        EXPECT_GE(plan.per_rank * plan.accumulate * ranks, whole);
        EXPECT_LT((plan.per_rank * (plan.accumulate - 1)) * ranks, whole);
      }
    }
  }
}

TEST(RunBatch, HalfOfTheRanksTakeTwiceTheMicroSteps) {
  const BatchPlan plan = divide({128, 64, 2}, 1);
  EXPECT_EQ(plan.per_rank, 64);
  EXPECT_EQ(plan.accumulate, 2);
}

TEST(RunBatch, MoreRanksThanSamplesAreRefused) {
  EXPECT_THROW((void)divide({4, 4, 1}, 5), UsageError);
}

TEST(RunBatch, ReadsBackWhatIsWritten) {
  const RunBatch run{128, 64, 2};
  EXPECT_EQ(parse_run_batch(to_text(run)), run);
  for (const char* const text : {"",
                                 "{}",
                                 "[1]",
                                 "{\"whole\": 0, \"per_rank\": 1, \"world_size\": 1}",
                                 "{\"whole\": 2, \"per_rank\": 3, \"world_size\": 1}",
                                 "{\"whole\": 2, \"per_rank\": 1, \"world_size\": \"1\"}"})
    EXPECT_EQ(parse_run_batch(text), std::nullopt) << text;
}

}  // namespace
}  // namespace ddp::worker
