#include "launcher/plan/placement.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(Placement, OneNodeCountsFromZero) {
  const std::vector<Placement> placements = place(std::vector<int>{3}, 0);
  ASSERT_EQ(placements.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(placements[static_cast<std::size_t>(i)], (Placement{i, 3, i, 3, 0, 1}));
  }
}

TEST(Placement, UnequalNodesGiveContiguousRanks) {
  const std::vector<int> workers{1, 2, 4};
  int next = 0;
  for (int node = 0; node < 3; ++node) {
    for (const Placement& placement : place(workers, node)) {
      EXPECT_EQ(placement.rank, next++);
      EXPECT_EQ(placement.world_size, 7);
      EXPECT_EQ(placement.node_rank, node);
      EXPECT_EQ(placement.nodes, 3);
    }
  }
  EXPECT_EQ(next, 7);
}

}  // namespace
}  // namespace ddp::launcher
