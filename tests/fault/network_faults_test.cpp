// The network between nodes fails: rows N of CASES.md. DDP_LOSS_SECONDS sets how long
// packets are lost.
#include <gmock/gmock.h>
#include <signal.h>

#include "common/node/environment.h"
#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::Not;

constexpr char kHint[] = "small packets pass, large ones do not";

class NetworkFaults : public ClusterTest {
 protected:
  /// Workers of `node` die because their own node hears nothing, not because others tell it.
  void expect_fenced(int node, steady_clock::time_point begin) {
    const milliseconds gone = workers_gone(node, begin);
    std::cout << "workers of node " << node << " were gone after " << gone.count() << " ms\n";
    EXPECT_TRUE(within(gone, kLostBound));
  }
  void expect_good_end(const Agents& agents) {
    const auto begin = steady_clock::now();
    signal_workers(SIGUSR1);
    EXPECT_TRUE(all_end(ends_of(agents, begin), 0, 2s));
  }
};

TEST_F(NetworkFaults, N1_AnUnpluggedNodeEndsItsWorkersAndTheJobWithin6s) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere(kSpawnsChildAndDaemon);
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  cluster().unplug(2);
  expect_fenced(2, begin);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 201, kLostBound));
  EXPECT_THAT(agents[0]->err(), HasSubstr("node2"));
  EXPECT_THAT(agents[1]->err(), HasSubstr("node2"));
  for (const auto& agent : agents)
    EXPECT_THAT(agent->err(), Not(HasSubstr(kHint)));
}

TEST_F(NetworkFaults, N1_AnUnpluggedNode0EndsTheJobWithin6s) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere(kSpawnsChildAndDaemon);
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  cluster().unplug(0);
  expect_fenced(1, begin);
  expect_fenced(2, begin);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 201, kLostBound));
}

TEST_F(NetworkFaults, N2_ALossOfOneDirectionIsALossForBothSides) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  for (const int from : {0, 1}) {
    const auto agents = launch_everywhere(kSpawnsChildAndDaemon);
    ASSERT_TRUE(all_see(agents, "ready"));
    const auto begin = steady_clock::now();
    cluster().drop(from, 1 - from);
    // Who is heard but hears nothing gets one more heartbeat: its kernel's answers do not arrive
    // either.
    EXPECT_TRUE(all_end(ends_of(agents, begin), 201, 7s)) << "lost: from node " << from;
    EXPECT_TRUE(workers_of(1).empty());
    for (const auto& agent : agents)
      EXPECT_THAT(agent->err(), Not(HasSubstr(kHint)));
    cluster().heal(1 - from);
  }
}

TEST_F(NetworkFaults, N3_AFlapOf2sIsNothing) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere(kWaitsForSignal);
  ASSERT_TRUE(all_see(agents, "ready"));
  for (const int node : {1, 0}) {
    cluster().unplug(node);
    agents[2]->read_for(2s);
    cluster().plug_in(node);
    agents[2]->read_for(3s);
  }
  expect_good_end(agents);
}

TEST_F(NetworkFaults, N4_ALossOf5PercentIsNothing) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  cluster().lose(0, 5);
  cluster().lose(1, 5);
  const auto agents = launch_everywhere(kWaitsForSignal);
  ASSERT_TRUE(all_see(agents, "ready"));
  agents[1]->read_for(std::chrono::seconds(setting("DDP_LOSS_SECONDS", 10)));
  expect_good_end(agents);
}

TEST_F(NetworkFaults, N4_ANodeBehindASlowLinkIsNotLost) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere(kWaitsForSignal);
  ASSERT_TRUE(all_see(agents, "ready"));
  cluster().slow(1, 16);
  agents[1]->read_for(8s);
  expect_good_end(agents);
}

TEST_F(NetworkFaults, N5_ANodeWithoutPowerIsLostWithin6s) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  auto agents = launch_everywhere("print ready hold");
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  cluster().unplug(1);
  agents[1]->signal(SIGKILL);  // and its guard kills the rest; none of it reaches the others
  agents.erase(agents.begin() + 1);
  const auto ends = ends_of(agents, begin);
  EXPECT_GE(ends[0].after, 3500ms);
  EXPECT_TRUE(all_end(ends, 201, kLostBound));
}

TEST_F(NetworkFaults, N8_ANameThatIsALoopbackAddressIsNoObstacle) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  cluster().set_host_address(0, "127.0.1.1");
  const std::vector<std::string> flags{"--master-addr", "node0"};
  const auto agents = launch_everywhere("environment print ready", flags);
  const auto ends = ends_of(agents, steady_clock::now());
  EXPECT_TRUE(all_end(ends, 0, 10s));
  EXPECT_THAT(agents[0]->err(), HasSubstr("127.0.1.1"));
  EXPECT_THAT(agents[1]->out(), HasSubstr("MASTER_ADDR=10.77.0.1\n"));
}

TEST_F(NetworkFaults, N9_ANodeWaitsForNode0AndJoinsWithin2s) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  Agents agents(2);
  agents[1] = launch_on(1, "print ready");
  agents[1]->read_for(std::chrono::seconds(setting("DDP_LATE_SECONDS", 12)));
  EXPECT_THAT(agents[1]->err(), HasSubstr("10.77.0.1"));  // a line every 10 s says what it tries
  const auto begin = steady_clock::now();
  agents[0] = launch_on(0, "print ready");
  EXPECT_TRUE(all_end(ends_of(agents, begin), 0, 3s));
}

// Workers that only compute would not show it: what they send each other hangs, and heartbeats are
// small.
TEST_F(NetworkFaults, N11_DroppedLargePacketsLoseTheNodeWithin6sWithAHint) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  for (const bool is_to_node0 : {false, true}) {
    const auto agents = launch_everywhere(kSpawnsChildAndDaemon);
    ASSERT_TRUE(all_see(agents, "ready"));
    agents[0]->read_for(1500ms);
    const auto begin = steady_clock::now();
    cluster().drop_large(is_to_node0 ? 1 : 0, is_to_node0 ? 0 : 1);
    EXPECT_TRUE(all_end(ends_of(agents, begin), 201, kLostBound)) << "to node 0: " << is_to_node0;
    EXPECT_TRUE(workers_of(1).empty());
    for (const auto& agent : agents)
      EXPECT_THAT(agent->err(), HasSubstr(kHint)) << "to node 0: " << is_to_node0;
    cluster().heal(is_to_node0 ? 0 : 1);
  }
}

// What it says of itself is larger than a packet, by a long run id here, by its job's keys as a
// rule.
TEST_F(NetworkFaults, N11_ANodeWhoseFirstLargePacketVanishesIsToldSo) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  cluster().drop_large(1, 0);
  const std::vector<std::string> flags{"--rdzv-id=" + std::string(1500, 'x'), "--join-timeout=12s"};
  const auto agents = launch_everywhere("print ready", flags);
  EXPECT_TRUE(all_end(ends_of(agents, steady_clock::now()), 202, 14s));
  EXPECT_THAT(agents[1]->err(), HasSubstr(kHint));
  EXPECT_EQ(agents[0]->out(), "");
}

}  // namespace
}  // namespace ddp::test
