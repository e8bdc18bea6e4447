#include "launcher/plan/round/survivor_wait.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using Step = SurvivorWait::Step;

TEST(SurvivorWait, EveryRowOfItsTable) {
  const SurvivorWait::Time begin{1000s};
  const SurvivorWait settling(begin);
  EXPECT_EQ(settling.advance(2, begin), Step::wait);
  EXPECT_EQ(settling.advance(0, begin), Step::settled);
  EXPECT_EQ(settling.advance(1, begin + SurvivorWait::kLongest - 1ms), Step::wait);
  EXPECT_EQ(settling.advance(1, begin + SurvivorWait::kLongest), Step::settled);
  EXPECT_EQ(SurvivorWait::note_kill_command(), Step::nobody_survives);
  EXPECT_EQ(SurvivorWait::note_signal(true), Step::nobody_survives);
  EXPECT_EQ(SurvivorWait::note_signal(false), Step::wait);  // it is for the workers
}

}  // namespace
}  // namespace ddp::launcher
