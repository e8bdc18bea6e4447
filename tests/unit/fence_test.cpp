#include "launcher/plan/round/fence.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

TEST(Fence, EveryRowOfItsTable) {
  struct Row {
    FenceFacts facts;
    FenceCause cause;
  };
  const std::vector<Row> rows{
      {{true, true, false, 60s}, FenceCause::none},
      {{true, true, true, 1999ms}, FenceCause::node_zero_silent},
      {{true, true, true, 2s}, FenceCause::we_slept},
      {{false, true, true, 60s}, FenceCause::none},  // a job of one node has no lease
      {{true, false, true, 60s}, FenceCause::none},  // between two rounds no worker lives
  };
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(find_fence_cause(rows[i].facts), rows[i].cause) << i;
}

}  // namespace
}  // namespace ddp::launcher
