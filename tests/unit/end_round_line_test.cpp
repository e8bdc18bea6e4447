#include "launcher/plan/round/end_round_line.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

EndRound end_for(EndReason reason, const std::string& what, bool keeps_survivors = false) {
  return EndRound{0, reason, what, 15, 30s, keeps_survivors};
}

TEST(EndRoundLine, SaysWhyAndHowManyWorkersEnd) {
  struct Row {
    EndRound command;
    std::size_t workers;
    std::string line;
    bool is_requested_here = true;
  };
  const std::vector<Row> rows{
      {end_for(EndReason::user, "SIGHUP at node 1 (b)"),
       1,
       "SIGHUP at node 1 (b): stopping 1 worker, they have 30s. SIGINT or SIGTERM, sent twice, "
       "kills "
       "them now.",
       false},
      {end_for(EndReason::user, "SIGINT at node 1 (b)"),
       2,
       "SIGINT at node 1 (b): stopping 2 workers, they have 30s. A second SIGINT or SIGTERM kills "
       "them now."},
      {end_for(EndReason::worker_failed, "rank 3 (pid 17) has failed: exit code 7"),
       3,
       "rank 3 (pid 17) has failed: exit code 7; stopping the other 3 workers."},
      {end_for(EndReason::worker_failed, "rank 3 (pid 17) has failed: exit code 7", true),
       1,
       "rank 3 (pid 17) has failed: exit code 7; the round is over for the other 1 worker."},
      {end_for(EndReason::node_lost, "node 1 (b) is lost: silent", true),
       2,
       "node 1 (b) is lost: silent; the round is over for 2 workers."},
      {end_for(EndReason::hang, "rank 1 (pid 3) hangs"),
       1,
       "rank 1 (pid 3) hangs; stopping 1 worker."},
  };
  for (const Row& row : rows)
    EXPECT_EQ(describe_end_round(row.command, row.workers, row.is_requested_here), row.line);
}

}  // namespace
}  // namespace ddp::launcher
