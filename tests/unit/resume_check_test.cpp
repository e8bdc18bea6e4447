#include "worker/plan/resume_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const TextMap kBefore{{"data.batch", "64"},
                      {"optimizer.lr", "0.1"},
                      {"optimizer.lr_factors", "{}"},
                      {"schedule.name", "cosine"},
                      {"seed", "1"}};

TEST(ResumeCheck, TheSameJobHasNoDifferences) {
  EXPECT_THAT(find_differences(kBefore, kBefore, {}), IsEmpty());
}

TEST(ResumeCheck, AKeyAllowsItselfAndASectionAllThatIsInIt) {
  TextMap now = kBefore;
  now["optimizer.lr"] = "0.2";
  now["optimizer.lr_factors"] = "{a: 2}";
  now["schedule.name"] = "step";
  const JobDifference lr{"optimizer.lr", "0.1", "0.2", true};
  const JobDifference factors{"optimizer.lr_factors", "{}", "{a: 2}", false};
  const JobDifference schedule{"schedule.name", "cosine", "step", true};
  EXPECT_THAT(find_differences(kBefore, now, {"optimizer.lr", "schedule"}),
              ElementsAre(lr, factors, schedule))
      << "optimizer.lr is not the beginning of optimizer.lr_factors";
}

TEST(ResumeCheck, UnknownKeysAndTheBatchAreNotDifferences) {
  TextMap now = kBefore;
  now["data.batch"] = "null";
  now["data.batch_per_rank"] = "32";
  now["new.key"] = "1";
  EXPECT_THAT(find_differences(kBefore, now, {}), IsEmpty());
}

}  // namespace
}  // namespace ddp::worker
