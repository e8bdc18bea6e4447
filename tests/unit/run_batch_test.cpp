// The whole batch of a run over any number of ranks.
#include "worker/plan/run_batch.h"
#include "common/job/batch_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "common/error.h"

namespace ddp::worker {
namespace {

TEST(RunBatch, MicroStepsNeverGrow) {
  for (std::int64_t global_batch = 1; global_batch <= 40; ++global_batch) {
    for (std::int64_t micro_batch = 1; micro_batch <= global_batch; ++micro_batch) {
      for (int ranks = 1; ranks <= global_batch; ++ranks) {
        const BatchPlan plan = divide({global_batch, micro_batch, 2}, ranks);
        EXPECT_EQ(plan.global_batch, global_batch);
        EXPECT_LE(plan.micro_batch, micro_batch);
        EXPECT_GE(plan.micro_batch * plan.accumulate * ranks, global_batch);
        EXPECT_LT((plan.micro_batch * (plan.accumulate - 1)) * ranks, global_batch);
      }
    }
  }
}

TEST(RunBatch, HalfOfTheRanksTakeTwiceTheMicroSteps) {
  const BatchPlan plan = divide({128, 64, 2}, 1);
  EXPECT_EQ(plan.micro_batch, 64);
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
