#include "launcher/plan/start/placement.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(Placement, OneNodeCountsFromZero) {
  const std::vector<Placement> placements = place(std::vector<int>{3}, std::vector<int>{0}, 0);
  ASSERT_EQ(placements.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(placements[static_cast<std::size_t>(i)], (Placement{i, 3, i, 3, 0, 1, i, 3}));
  }
}

TEST(Placement, UnequalNodesGiveContiguousRanks) {
  const std::vector<int> workers{1, 2, 4};
  int next = 0;
  for (int node = 0; node < 3; ++node) {
    for (const Placement& placement : place(workers, std::vector<int>(3), node)) {
      EXPECT_EQ(placement.rank, next++);
      EXPECT_EQ(placement.world_size, 7);
      EXPECT_EQ(placement.node_rank, node);
      EXPECT_EQ(placement.nodes, 3);
      EXPECT_EQ(placement.role_rank, placement.rank) << "one role";
      EXPECT_EQ(placement.role_world_size, 7);
    }
  }
  EXPECT_EQ(next, 7);
}

TEST(Placement, TheRankInARoleCountsTheWorkersOfThatRoleAlone) {
  const std::vector<std::string> names{"reader", "trainer", "reader", "trainer"};
  const std::vector<int> roles = number_roles(names);
  const std::vector<int> workers{1, 2, 3, 4};
  const std::vector<int> first_of_role{0, 0, 1, 2};
  const std::vector<int> role_sizes{4, 6, 4, 6};
  int next = 0;
  for (std::size_t node = 0; node < workers.size(); ++node) {
    for (const Placement& placement : place(workers, roles, static_cast<int>(node))) {
      EXPECT_EQ(placement.rank, next++);
      EXPECT_EQ(placement.role_rank, first_of_role[node] + placement.local_rank);
      EXPECT_EQ(placement.role_world_size, role_sizes[node]);
    }
  }
}

}  // namespace
}  // namespace ddp::launcher
