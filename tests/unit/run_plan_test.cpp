#include "worker/plan/run_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::worker {
namespace {

TEST(RunPlan, TheLastStepIsNeverWarmUp) {
  Job job;
  job.schedule.name = "cosine";
  job.epochs = 1;
  job.schedule.warmup = 5;
  EXPECT_EQ(make_schedule(job, 10, 10).warmup, 9);
  job.epochs = 10;
  EXPECT_EQ(make_schedule(job, 10, 100).warmup, 50);
  EXPECT_EQ(make_schedule(job, 10, 100).steps, 100);
}

TEST(RunPlan, EpochsOfTheJobBecomeSteps) {
  Job job;
  job.schedule.name = "multistep";
  job.schedule.warmup = 0;
  job.schedule.milestones = {1, 3};
  job.epochs = 4;
  job.optimizer.lr = 1;
  const Schedule schedule = make_schedule(job, 10, 40);
  EXPECT_EQ(schedule.milestones, (std::vector<std::int64_t>{10, 30}));
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 39), 0.01);
}

}  // namespace
}  // namespace ddp::worker
