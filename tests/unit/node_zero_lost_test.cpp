#include "launcher/plan/round/node_zero_lost.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kGrace = 30s;

NodeZeroFacts well() {
  NodeZeroFacts facts;
  facts.name = "node 0 (a)";
  facts.host = "a, 10.0.0.1";
  facts.silence = 1s;
  return facts;
}

/// With everything wrong that a later row than `row` asks for.
NodeZeroFacts from_row(int row) {
  NodeZeroFacts facts = well();
  if (row <= 1) facts.why_slept = "this agent did not run for 7 s";
  if (row <= 2) facts.connection_end = "Connection reset by peer";
  if (row <= 3) facts.silence = 6s;
  facts.is_stop_unanswered = true;
  facts.requested_signal = SIGINT;
  return facts;
}

TEST(NodeZeroLost, JobGoesOnWhileNodeZeroIsHeard) {
  EXPECT_FALSE(end_without_node_zero(well(), kGrace));
  NodeZeroFacts facts = well();
  facts.silence = 5s;  // not more than the lease
  EXPECT_FALSE(end_without_node_zero(facts, kGrace));
}

TEST(NodeZeroLost, TheFirstRowThatAppliesDecides) {
  struct Row {
    EndReason reason;
    int signal;
    int exit_code;
    std::string lost_host;  // empty: node 0 is not what was lost
    std::string text;
  };
  const std::vector<Row> rows{
      {EndReason::slept, SIGKILL, 201, "", "this agent did not run for 7 s."},
      {EndReason::node_lost,
       SIGTERM,
       201,
       "a, 10.0.0.1",
       "node 0 (a) is lost: its agent is gone (Connection reset by peer)."},
      {EndReason::node_lost, SIGKILL, 201, "a, 10.0.0.1", "node 0 (a) is lost: silent for 6.0 s."},
      {EndReason::stop_unanswered,
       SIGKILL,
       130,
       "",
       "SIGINT came twice, and node 0 (a) does not end the job: this node leaves it."},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::optional<EndWithoutNodeZero> end =
        end_without_node_zero(from_row(static_cast<int>(i) + 1), kGrace);
    ASSERT_TRUE(end) << i;
    EXPECT_EQ(end->command.reason, row.reason) << i;
    EXPECT_EQ(end->command.signal, row.signal) << i;
    EXPECT_EQ(end->exit_code, row.exit_code) << i;
    EXPECT_EQ(end->text, row.text);
    EXPECT_EQ(end->lost.has_value(), !row.lost_host.empty()) << i;
    EXPECT_EQ(end->lost ? end->lost->host : "", row.lost_host) << i;
  }
}

TEST(NodeZeroLost, WorkersHaveTheJobsGraceOfAtMostFiveSeconds) {
  EXPECT_EQ(end_without_node_zero(from_row(2), 30s)->command.grace, 5s);
  EXPECT_EQ(end_without_node_zero(from_row(2), 2s)->command.grace, 2s);
}

/// The guard's clock goes on while the agent is stopped.
TEST(NodeZeroLost, WorkersKilledByTheGuardAreLostThoughOurOwnClockSaysNothing) {
  NodeZeroFacts facts = well();
  facts.is_fenced = true;
  facts.silence_hint = " (a hint)";
  const std::optional<EndWithoutNodeZero> end = end_without_node_zero(facts, kGrace);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->command.signal, SIGKILL);
  EXPECT_EQ(end->command.what, "node 0 (a) is lost: silent for 1.0 s (a hint)");
}

}  // namespace
}  // namespace ddp::launcher
