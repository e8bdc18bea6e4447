#include "launcher/plan/round/sweep.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(Sweep, OfWorkersAloneKillsAllUntilNoChildIsLeft) {
  const Sweep sweep(false);
  EXPECT_TRUE(Sweep::may_kill_marked(0));
  EXPECT_TRUE(sweep.may_kill_orphans());
  EXPECT_FALSE(Sweep::is_done(1, 0));
  EXPECT_FALSE(Sweep::is_done(0, 1));
  EXPECT_TRUE(Sweep::is_done(0, 0));
  EXPECT_FALSE(sweep.leaves_rest(0, 0)) << "an orphan is to go, marked or not";
}

TEST(Sweep, LeavesAloneWhatBearsTheMarkOfSurvivors) {
  EXPECT_FALSE(Sweep::may_kill_marked(1));
  EXPECT_TRUE(Sweep(false).may_kill_orphans());
}

TEST(Sweep, LeavesAloneOrphansThatMayBeOfChildrenFromBefore) {
  const Sweep sweep(true);
  EXPECT_TRUE(Sweep::may_kill_marked(0));
  EXPECT_FALSE(sweep.may_kill_orphans());
  EXPECT_FALSE(sweep.leaves_rest(1, 0));
  EXPECT_FALSE(sweep.leaves_rest(0, 1));
  EXPECT_TRUE(sweep.leaves_rest(0, 0));
}

}  // namespace
}  // namespace ddp::launcher
