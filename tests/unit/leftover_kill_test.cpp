#include "launcher/plan/round/leftover_kill.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(LeftoverKill, WorkersAloneAreKilledUntilNoChildIsLeft) {
  const LeftoverKill sweep(false);
  EXPECT_TRUE(LeftoverKill::may_kill_marked(0));
  EXPECT_TRUE(sweep.may_kill_orphans());
  EXPECT_FALSE(LeftoverKill::is_done(1, 0));
  EXPECT_FALSE(LeftoverKill::is_done(0, 1));
  EXPECT_TRUE(LeftoverKill::is_done(0, 0));
  EXPECT_FALSE(sweep.is_done_but_for_orphans(0, 0)) << "an orphan is to go, marked or not";
}

TEST(LeftoverKill, LeavesAloneWhatBearsTheMarkOfSurvivors) {
  EXPECT_FALSE(LeftoverKill::may_kill_marked(1));
  EXPECT_TRUE(LeftoverKill(false).may_kill_orphans());
}

TEST(LeftoverKill, LeavesAloneOrphansThatMayBeOfChildrenFromBefore) {
  const LeftoverKill sweep(true);
  EXPECT_TRUE(LeftoverKill::may_kill_marked(0));
  EXPECT_FALSE(sweep.may_kill_orphans());
  EXPECT_FALSE(sweep.is_done_but_for_orphans(1, 0));
  EXPECT_FALSE(sweep.is_done_but_for_orphans(0, 1));
  EXPECT_TRUE(sweep.is_done_but_for_orphans(0, 0));
}

}  // namespace
}  // namespace ddp::launcher
