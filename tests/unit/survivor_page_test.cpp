#include "common/progress/survivor_page.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ddp {
namespace {

TEST(SurvivorPage, NewPageIsEmptyAndSharedWithTheWorker) {
  const MappedProgressPage agent = MappedProgressPage::create();
  const MappedProgressPage worker = MappedProgressPage::open(::dup(agent.fd()));
  const SurvivorPage& seen = survivor_page(*worker);
  EXPECT_EQ(seen.is_wanted, 0U);
  EXPECT_EQ(seen.can_wait, 0U);
  EXPECT_EQ(seen.waits, 0U);
  EXPECT_EQ(seen.round, 0);
  survivor_page(*agent).is_wanted = 1;
  survivor_page(*worker).waits = 1;
  EXPECT_EQ(seen.is_wanted, 1U);
  EXPECT_EQ(survivor_page(*agent).waits, 1U);
  EXPECT_EQ(worker->phase, Phase::starting) << "the first part is as it was";
}

TEST(SurvivorPage, TellsWhoTheWorkerIsInALaterRoundAlone) {
  const MappedProgressPage page = MappedProgressPage::create();
  SurvivorPage& both = survivor_page(*page);
  WorkerIdentity self;
  self.rank = 3;
  self.world_size = 4;
  self.local_rank = 1;
  self.local_world_size = 2;
  self.group_rank = 1;
  self.group_world_size = 2;
  self.role_rank = 3;
  self.role_world_size = 4;
  self.run_id = "abc";
  EXPECT_FALSE(next_identity(both, self));
  both.waits = 1;
  both.is_survivor = 1;
  WorkerIdentity next = self;
  next.round = next.restart_count = 2;
  next.rank = next.role_rank = 1;
  next.world_size = next.role_world_size = 2;
  next.group_rank = 0;
  next.group_world_size = 1;
  begin_next_round(both, next);
  EXPECT_EQ(next_identity(both, self), next);
  EXPECT_FALSE(next_identity(both, next)) << "it is in that round by now";
  EXPECT_EQ(both.waits, 0U);
  EXPECT_EQ(both.is_survivor, 1U) << "who looks in between must not take itself for forgotten";
}

}  // namespace
}  // namespace ddp
