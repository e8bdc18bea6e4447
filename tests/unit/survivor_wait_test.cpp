#include "launcher/plan/round/survivor_wait.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using SurvivorStep = SurvivorWait::Step;

TEST(SurvivorWait, EveryRowOfItsTable) {
  const SurvivorWait::Time begin{1000s};
  const SurvivorWait wait(begin);
  EXPECT_EQ(wait.advance(2, begin), SurvivorStep::wait);
  EXPECT_EQ(wait.advance(0, begin), SurvivorStep::settled);
  EXPECT_EQ(wait.advance(1, begin + SurvivorWait::kLongest - 1ms), SurvivorStep::wait);
  EXPECT_EQ(wait.advance(1, begin + SurvivorWait::kLongest), SurvivorStep::settled);
  EXPECT_EQ(SurvivorWait::note_kill_command(), SurvivorStep::nobody_survives);
  EXPECT_EQ(SurvivorWait::note_signal(true), SurvivorStep::nobody_survives);
  EXPECT_EQ(SurvivorWait::note_signal(false), SurvivorStep::wait);  // it is for the workers
}

}  // namespace
}  // namespace ddp::launcher
