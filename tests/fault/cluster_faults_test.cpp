// Workers and agents of several nodes fail, die, or are stopped: rows W and L of the list of
// faults, for jobs of several nodes. DDP_STOP_SECONDS sets how long an agent is stopped.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "common/node/environment.h"
#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AnyOf;
using testing::HasSubstr;

constexpr milliseconds kGrace = 2s;
constexpr char kKernelLog[] = "/dev/kmsg";
constexpr char kOffTheBus[] =
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";

class ClusterFaults : public ClusterTest {};

// W2 on two nodes: where torchrun waits for minutes, as node 0 computes and sends nothing.
TEST_F(ClusterFaults, W2_AKilledWorkerOfNode1EndsNode0Within1sWithItsCode) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere("print ready hold");
  ASSERT_TRUE(all_see(agents, "ready"));
  const pid_t victim = worker(2);
  ASSERT_GT(victim, 0);
  const auto begin = steady_clock::now();
  send_signal(victim, SIGKILL);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 137, 1s));
  EXPECT_NE(report_of(*agents[0]), "");
  EXPECT_EQ(report_of(*agents[0]), report_of(*agents[1]));
  EXPECT_THAT(report_of(*agents[0]), HasSubstr("rank      : 2 (local_rank: 0)"));
  EXPECT_THAT(report_of(*agents[0]), HasSubstr("node1"));
}

TEST_F(ClusterFaults, W3_TheCodeOfTheWorkerIsTheCodeOfEveryAgent) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere("print ready on 5 [ wait USR1 exit 7 ] hold");
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  send_signal(worker(5), SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 7, 1s));
}

// W4: the first rank is done, the others go on for a while; nobody waits for a barrier, and a good
// end is one of all.
TEST_F(ClusterFaults, W4_ANodeThatIsDoneEarlyWaitsForTheOthersAndEndsWithThem) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const auto agents =
      launch_everywhere("print ready on 2 [ exit 0 ] on 3 [ exit 0 ] wait USR1 print done");
  ASSERT_TRUE(all_see(agents, "ready"));
  ASSERT_TRUE(workers_gone(1, steady_clock::now()) >= 0ms);
  agents[1]->read_for(500ms);
  EXPECT_NE(state_of(agents[1]->pid()), "Z");
  const auto begin = steady_clock::now();
  signal_workers(SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 0, 1s));
  EXPECT_THAT(agents[0]->out(), HasSubstr("[0:1] done"));
}

TEST_F(ClusterFaults, W4_NoSuccessBesideAPeerThatFailsLater) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere(
      "print ready on 2 [ exit 0 ] on 3 [ exit 0 ] on 0 [ wait USR1 exit 9 ] hold");
  ASSERT_TRUE(all_see(agents, "ready"));
  ASSERT_TRUE(workers_gone(1, steady_clock::now()) >= 0ms);
  const auto begin = steady_clock::now();
  send_signal(worker(0), SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 9, 1s));
}

TEST_F(ClusterFaults, W14_TwoFailuresOnTwoNodesGiveOneRootCauseEverywhere) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere(
      "ignore TERM print ready on 2 [ wait USR1 exit 7 ] on 4 [ wait USR1 exit 8 ] hold");
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  const pid_t one = worker(2);
  const pid_t other = worker(4);
  send_signal(one, SIGUSR1);
  send_signal(other, SIGUSR1);
  const auto ends = ends_of(agents, begin);
  EXPECT_TRUE(ends[0].code == 7 || ends[0].code == 8) << ends[0].code;
  EXPECT_TRUE(all_end(ends, ends[0].code, 1s + kGrace));  // the others do not obey
  for (const auto& agent : agents) {
    EXPECT_EQ(report_of(*agent), report_of(*agents[0]));
    EXPECT_EQ(count(agent->err(), "Root Cause"), 1U);
  }
  EXPECT_THAT(report_of(*agents[0]), HasSubstr("exit code 7"));
  EXPECT_THAT(report_of(*agents[0]), HasSubstr("exit code 8"));
}

TEST_F(ClusterFaults, W15_AFailureAfterTheTeardownIsAVictimOnAnyNode) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere(
      "print ready on 3 [ wait USR1 exit 5 ] on 0 [ wait TERM error late-error exit 11 ] wait "
      "TERM");
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  send_signal(worker(3), SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 5, 1s));
  EXPECT_THAT(report_of(*agents[0]), HasSubstr("rank      : 3 (local_rank: 1)"));
}

TEST_F(ClusterFaults, L1_AKilledAgentOfNode1LeavesNothingAndEndsTheJobBy201) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  auto agents = launch_everywhere(kSpawnsChildAndDaemon);
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  agents[1]->signal(SIGKILL);
  const milliseconds gone = workers_gone(1, begin);
  std::cout << "its workers were gone after " << gone.count() << " ms" << std::endl;
  EXPECT_TRUE(within(gone, 200ms));
  EXPECT_EQ(agents[1]->wait(), -SIGKILL);
  agents.erase(agents.begin() + 1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 201, 1s + kGrace));
  EXPECT_THAT(agents[0]->err(), HasSubstr("node 1"));
  EXPECT_THAT(agents[0]->err(), HasSubstr("node1"));
}

TEST_F(ClusterFaults, L2_AKilledAgentOfNode0LeavesNothingAndEndsTheJobBy201) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  auto agents = launch_everywhere(kSpawnsChildAndDaemon);
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  agents[0]->signal(SIGKILL);
  const milliseconds gone = workers_gone(0, begin);
  std::cout << "its workers were gone after " << gone.count() << " ms" << std::endl;
  EXPECT_TRUE(within(gone, 200ms));
  EXPECT_EQ(agents[0]->wait(), -SIGKILL);
  agents.erase(agents.begin());
  EXPECT_TRUE(all_end(ends_of(agents, begin), 201, 1s + kGrace));
}

// L1, L2: while it joins, while workers are started, while they run, or while they are ended.
TEST_F(ClusterFaults, L1_AtWhateverMomentAnAgentIsKilledTheOthersEndAndNothingIsLeft) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> delay_ms(0, 250);
  const int kills = setting("DDP_KILLS", 12);
  for (int i = 0; i < kills; ++i) {
    auto agents = launch_everywhere(
        "spawn [ ignore TERM hold ] lose [ hold ] on 3 [ sleep 0.05 exit 7 ] hold",
        {"--join-timeout", "3s", "--max-restarts", "1000", "--died-within", "0s"});
    const std::size_t victim = static_cast<std::size_t>(i) % agents.size();
    agents[victim]->read_for(milliseconds(delay_ms(random)));
    const auto begin = steady_clock::now();
    agents[victim]->signal(SIGKILL);
    EXPECT_EQ(agents[victim]->wait(), -SIGKILL);
    agents.erase(agents.begin() + static_cast<long>(victim));
    const auto ends = ends_of(agents, begin);
    for (const AgentEnd& end : ends) {
      // 7: it was killed while the failure of rank 3 was dealt with; 202: before it had joined.
      EXPECT_THAT(end.code, AnyOf(201, 202, 7)) << "killed: node " << victim;
      EXPECT_TRUE(within(end.after, 3s + kGrace + 500ms));
    }
    if (victim != 0) {
      EXPECT_EQ(ends[0].code, ends[1].code);
    }
    EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
    if (HasFailure()) {
      for (const auto& agent : agents)
        std::cout << "--- " << agent->err();
      FAIL() << "kill " << i << " of seed " << seed;
    }
  }
}

TEST_F(ClusterFaults, L3_AnAgentThatIsStoppedFor3sIsWaitedFor) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto agents = launch_everywhere(kWaitsForSignal);
  ASSERT_TRUE(all_see(agents, "ready"));
  for (const std::size_t node : {1U, 0U}) {
    agents[node]->signal(SIGSTOP);
    agents[2]->read_for(3s);
    agents[node]->signal(SIGCONT);
    agents[2]->read_for(1500ms);
  }
  EXPECT_TRUE(agents[0]->sees("node 1 (node1) was silent for"));
  const auto begin = steady_clock::now();
  signal_workers(SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 0, 1s));
}

TEST_F(ClusterFaults, L4_AnAgentOfNode1ThatIsStoppedForLongIsFencedAndSaysSo) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  auto agents = launch_everywhere(kSpawnsChildAndDaemon);
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  agents[1]->signal(SIGSTOP);
  const milliseconds gone = workers_gone(1, begin);
  std::cout << "its workers were gone after " << gone.count() << " ms" << std::endl;
  EXPECT_GE(gone, 3500ms);
  EXPECT_TRUE(within(gone, kLostBound));
  auto stopped = std::move(agents[1]);
  agents.erase(agents.begin() + 1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 201, kLostBound));
  const auto end = begin + std::chrono::seconds(setting("DDP_STOP_SECONDS", 8));
  stopped->read_for(std::chrono::duration_cast<milliseconds>(end - steady_clock::now()));
  EXPECT_EQ(state_of(stopped->pid()), "T");
  stopped->signal(SIGCONT);
  EXPECT_EQ(stopped->wait(1s), 201);
  EXPECT_TRUE(stopped->sees("fenced"));
}

TEST_F(ClusterFaults, L4_AnAgentOfNode0ThatIsStoppedForLongIsFencedByItsOwnGuard) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  auto agents = launch_everywhere(kSpawnsChildAndDaemon);
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  agents[0]->signal(SIGSTOP);
  EXPECT_GE(workers_gone(0, begin), 3500ms);
  for (const int node : {0, 1, 2}) {
    const milliseconds gone = workers_gone(node, begin);
    std::cout << "workers of node " << node << " were gone after " << gone.count() << " ms\n";
    EXPECT_TRUE(within(gone, kLostBound));
  }
  auto stopped = std::move(agents[0]);
  agents.erase(agents.begin());
  EXPECT_TRUE(all_end(ends_of(agents, begin), 201, kLostBound));
  stopped->signal(SIGCONT);
  EXPECT_EQ(stopped->wait(1s), 201);
  EXPECT_TRUE(stopped->sees("fenced", 1s));
}

// Enough are left, and yet another one is waited for as long as the job says.
TEST_F(ClusterFaults, L1_ALostNodeIsAwaitedBeforeFewerGoOn) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const Agents agents =
      launch_everywhere("print ready round 1 [ print again ] wait USR1",
                        {"--nnodes=1:2", "--replace-timeout=9s", "--max-restarts=1"});
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  agents[1]->signal(SIGKILL);
  ASSERT_TRUE(agents[0]->sees("starts when another node has come, or in 9s")) << agents[0]->err();
  ASSERT_TRUE(agents[0]->sees("[0:0] again") && agents[0]->sees("[0:1] again")) << agents[0]->err();
  EXPECT_GE(steady_clock::now() - begin, 9s);
  EXPECT_EQ(report_of(*agents[0]), "");
  signal_workers(SIGUSR1);
  EXPECT_EQ(agents[0]->wait(), 0) << agents[0]->err();
}

// L1 with somebody to take the place: 12 s from the loss of a node to the next round (section 9).
TEST_F(ClusterFaults, L1_ASpareTakesThePlaceOfALostNodeWithin12s) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  Agents agents;
  for (const int node : {0, 1, 2}) {
    agents.push_back(launch_unranked(
        node,
        "round 0 [ print ready ] round 1 [ print again ] wait USR1",
        {"--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--replace-timeout=20s"}));
    ASSERT_TRUE(node == 0 ? listens(*agents[0]) : agents[0]->sees(Cluster::host(node)));
  }
  ASSERT_TRUE(agents[0]->sees("[0:0] ready") && agents[1]->sees("[1:1] ready"));
  const auto begin = steady_clock::now();
  agents[1]->signal(SIGKILL);
  ASSERT_TRUE(agents[2]->sees("[1:1] again"));
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  std::cout << "the spare's worker ran after " << took.count() << " ms" << std::endl;
  EXPECT_TRUE(within(took, 12s));
  EXPECT_EQ(agents[1]->wait(), -SIGKILL);
  agents.erase(agents.begin() + 1);
  ASSERT_TRUE(agents[0]->sees("[0:0] again"));  // it blocks SIGUSR1 by now
  signal_workers(SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, steady_clock::now()), 0, 1s));
}

// What its kernel log says is played: no test can break a GPU.
TEST_F(ClusterFaults, X4_ANodeWithABrokenGpuGivesItsPlaceToASpare) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  if (!std::filesystem::exists(kKernelLog)) GTEST_SKIP() << "needs " << kKernelLog;
  cluster().give_kernel_log(1);
  Agents agents;
  for (const int node : {0, 1, 2}) {
    agents.push_back(launch_unranked(
        node,
        "round 0 [ print ready on 1 [ wait USR1 exit 7 ] hold ] print again wait USR1",
        {"--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--replace-timeout=20s"}));
    ASSERT_TRUE(node == 0 ? listens(*agents[0]) : agents[0]->sees(Cluster::host(node)));
  }
  ASSERT_TRUE(agents[0]->sees("[0:0] ready") && agents[1]->sees("[1:1] ready"));
  cluster().write_kernel_log(1, kOffTheBus);
  const auto begin = steady_clock::now();
  send_signal(worker(1), SIGUSR1);
  ASSERT_TRUE(agents[2]->sees("[1:1] again")) << agents[0]->err();
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  EXPECT_TRUE(within(took, 3s));  // of a restart (section 9)
  EXPECT_TRUE(agents[0]->sees(std::string("node1 is left out, as another node takes its place: a "
                                          "GPU of it is broken, as its kernel log says: ") +
                              kOffTheBus));
  ASSERT_TRUE(agents[0]->sees("[0:0] again"));
  signal_workers(SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, steady_clock::now()), 0, 1s));
  EXPECT_EQ(agents[1]->out().find("again"), std::string::npos);
}

TEST_F(ClusterFaults, X4_WithoutASpareANodeWithABrokenGpuStaysAndTheReportShowsIt) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  if (!std::filesystem::exists(kKernelLog)) GTEST_SKIP() << "needs " << kKernelLog;
  cluster().give_kernel_log(1);
  const auto agents = launch_everywhere("print ready on 2 [ wait USR1 exit 7 ] hold",
                                        {"--nproc-per-node=2", "--max-restarts=1"});
  ASSERT_TRUE(all_see(agents, "ready"));
  cluster().write_kernel_log(1, kOffTheBus);
  send_signal(worker(2), SIGUSR1);
  ASSERT_TRUE(agents[0]->sees("node 1 (node1) stays, as no other node is there to take its place"));
  ASSERT_TRUE(agents[1]->sees("round 1: "));
  const auto is_ready_again = [&] {
    agents[1]->read_for(5ms);
    return agents[1]->out().find("[1:2] ready") != agents[1]->out().rfind("[1:2] ready");
  };
  ASSERT_TRUE(eventually(is_ready_again, kTestTimeout));
  cluster().write_kernel_log(1, kOffTheBus);
  const auto begin = steady_clock::now();
  send_signal(worker(2), SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 7, 1s));
  for (const auto& agent : agents)
    EXPECT_THAT(report_of(*agent),
                HasSubstr(std::string("GPU error in the kernel log: ") + kOffTheBus));
}

TEST_F(ClusterFaults, L5_AStopOnOneNodeStopsAllByItsSignal) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  for (const std::size_t node : {0U, 1U}) {
    const auto agents = launch_everywhere("print ready hold");
    ASSERT_TRUE(all_see(agents, "ready"));
    const auto begin = steady_clock::now();
    agents[node]->signal(SIGINT);
    EXPECT_TRUE(all_end(ends_of(agents, begin), 128 + SIGINT, 1s)) << "asked on node " << node;
  }
}

}  // namespace
}  // namespace ddp::test
