#include "launcher/plan/fence.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

TEST(Fence, EveryRowOfItsTable) {
  struct Row {
    FenceView view;
    Fence fence;
  };
  const std::vector<Row> rows{
      {{true, true, false, 60s}, Fence::none},
      {{true, true, true, 1999ms}, Fence::node_zero_silent},
      {{true, true, true, 2s}, Fence::we_slept},
      {{false, true, true, 60s}, Fence::none},  // a job of one node has no lease
      {{true, false, true, 60s}, Fence::none},  // between two rounds no worker lives
  };
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(look_at_fence(rows[i].view), rows[i].fence) << i;
}

}  // namespace
}  // namespace ddp::launcher
