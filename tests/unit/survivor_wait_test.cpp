#include "launcher/plan/round/survivor_wait.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using SurvivorResult = SurvivorWait::Result;

TEST(SurvivorWait, EveryRowOfItsTable) {
  const SurvivorWait::Time begin{1000s};
  const SurvivorWait wait(begin);
  EXPECT_EQ(wait.advance(2, begin), SurvivorResult::waiting);
  EXPECT_EQ(wait.advance(0, begin), SurvivorResult::settled);
  EXPECT_EQ(wait.advance(1, begin + SurvivorWait::kLongest - 1ms), SurvivorResult::waiting);
  EXPECT_EQ(wait.advance(1, begin + SurvivorWait::kLongest), SurvivorResult::settled);
  EXPECT_EQ(SurvivorWait::note_kill_command(), SurvivorResult::nobody_survives);
  EXPECT_EQ(SurvivorWait::note_signal(true), SurvivorResult::nobody_survives);
  EXPECT_EQ(SurvivorWait::note_signal(false), SurvivorResult::waiting);  // it is for the workers
}

}  // namespace
}  // namespace ddp::launcher
