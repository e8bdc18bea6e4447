// Agents that do not fit together: rows C of CASES.md, over real networks of several
// nodes. The job that they do not fit to is unharmed.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "common/node/environment.h"
#include "tests/support/cluster.h"
#include "tests/support/fake_node.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

class RefusalFaults : public ClusterTest {
 protected:
  /// Refused within a second, with every one of `words` in its message.
  static void expect_refused(Running& agent, const std::vector<std::string>& words) {
    EXPECT_EQ(agent.wait(), 203) << agent.err();
    EXPECT_TRUE(within(agent.lived(), 1s));
    for (const std::string& word : words)
      EXPECT_THAT(agent.err(), HasSubstr(word));
  }
  /// The job of node 0 goes on once the right node 1 comes.
  void expect_unharmed(std::unique_ptr<Running> node0) {
    Agents agents;
    agents.push_back(std::move(node0));
    agents.push_back(launch_on(1, "print ready"));
    EXPECT_TRUE(all_end(ends_of(agents, steady_clock::now()), 0, 5s));
    EXPECT_THAT(agents[0]->out(), HasSubstr("[0:1] ready"));
  }
};

TEST_F(RefusalFaults, C1_ANodeWithAnotherTokenOrNoneIsRefusedAndTheJobGoesOn) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const std::map<std::string, std::string> right{{"DDP_TOKEN", std::string(64, 'a')}};
  const std::map<std::string, std::string> wrong{{"DDP_TOKEN", std::string(64, 'b')}};
  Agents agents;
  agents.push_back(launch_on(0, "environment", {}, right));
  ASSERT_TRUE(agents[0]->sees("missing: node 1", 15s));  // it listens
  expect_refused(*launch_on(1, "print no", {}, wrong), {"token"});
  const auto without = launch_on(1, "print no");
  expect_refused(*without, {"token"});
  EXPECT_THAT(without->err(), HasSubstr("this job of several nodes has no token"));
  agents.push_back(launch_on(1, "environment", {}, right));
  EXPECT_TRUE(all_end(ends_of(agents, steady_clock::now()), 0, 5s));
  EXPECT_THAT(agents[1]->out(), HasSubstr("RANK=2"));
  for (const auto& agent : agents) {
    EXPECT_EQ(agent->out().find("DDP_TOKEN"), std::string::npos);  // the workers do not see it
    EXPECT_EQ(agent->err().find("no token"), std::string::npos);
  }
}

TEST_F(RefusalFaults, C4_AnotherJobIsRefusedAndItsKeysAreNamed) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  // Nothing of it is started here, so anything may stand for the program.
  std::filesystem::create_symlink(DDP_FAKE_WORKER, scratch() / "ddp-worker");
  const std::string path =
      scratch().string() + ":" + find_variable(read_environment(), "PATH").value_or("");
  const std::string file =
      write_file("job.yaml", "name: test\noutput: " + scratch().string() + "\n");
  const auto launch_job = [&](int node, const std::string& more) {
    Command command{.arguments = cluster().enter(node), .environment = {{"PATH", path}}};
    for (const std::string& word : {std::string(DDP_LAUNCH),
                                    std::string("--nnodes=2"),
                                    "--node-rank=" + std::to_string(node),
                                    "--master-addr=" + Cluster::address(0),
                                    file,
                                    std::string("data.batch_per_rank=8"),
                                    more})
      command.arguments.push_back(word);
    return start(command);
  };
  const auto node0 = launch_job(0, "train.epochs=2");
  const auto node1 = launch_job(1, "train.epochs=3");
  const auto with_address = [](int node) {
    return "(node" + std::to_string(node) + ", " + Cluster::address(node) + ")";
  };
  expect_refused(*node1, {"train.epochs", with_address(0), with_address(1)});
  node0->signal(SIGTERM);
  EXPECT_EQ(node0->wait(), 128 + SIGTERM);
}

TEST_F(RefusalFaults, C5_ANodeRankThatIsTakenIsRefusedWithBothHosts) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  Agents agents;
  agents.push_back(launch_on(0, "print ready"));
  agents.push_back(launch_on(1, "print ready"));
  ASSERT_TRUE(agents[0]->sees("node1"));  // it has joined, and node 2 is missing
  const auto twin = launch_on(2, "print ready", {"--node-rank", "1"});
  expect_refused(*twin, {"node1", "node2", "--node-rank"});
  agents.push_back(launch_on(2, "print ready"));
  EXPECT_TRUE(all_end(ends_of(agents, steady_clock::now()), 0, 5s));
}

TEST_F(RefusalFaults, C5_BothMachinesWithNodeRank0AreToldApart) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  auto node0 = launch_on(0, "print ready");
  ASSERT_TRUE(listens(*node0));
  const auto twin = launch_on(1, "print ready", {"--node-rank", "0"});
  expect_refused(*twin, {"node0", "node1", "--node-rank 1"});
  expect_unharmed(std::move(node0));
}

TEST_F(RefusalFaults, C5_AWrongNode0ThatIsFirstIsRefusedOnceTheRightOneIsThere) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const auto wrong = launch_on(1, "print no", {"--node-rank", "0"});
  ASSERT_TRUE(wrong->sees("missing: node 1", 15s));
  auto node0 = launch_on(0, "print ready");
  EXPECT_EQ(wrong->wait(5s), 203) << wrong->err();
  EXPECT_THAT(wrong->err(), HasSubstr("Did you mean --node-rank 1?"));
  expect_unharmed(std::move(node0));
}

TEST_F(RefusalFaults, C5_TwiceNodeRank0OnOneMachineIsADuplicate) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  auto node0 = launch_on(0, "print ready");
  ASSERT_TRUE(listens(*node0));
  const auto twin = launch_on(0, "print ready");
  expect_refused(*twin, {"node0", "--node-rank 1"});
  expect_unharmed(std::move(node0));
}

TEST_F(RefusalFaults, C6_AMissingNodeIsNamedAtTheLimit) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  Agents agents;
  const auto begin = steady_clock::now();
  agents.push_back(launch_on(0, "print ready", {"--join-timeout", "3s"}));
  agents.push_back(launch_on(1, "print ready", {"--join-timeout", "3s"}));
  EXPECT_TRUE(all_end(ends_of(agents, begin), 202, 4s + 200ms));
  EXPECT_GE(agents[0]->lived(), 3s);
  EXPECT_THAT(agents[0]->err(), AllOf(HasSubstr("node1"), HasSubstr("missing: node 2")));
  EXPECT_THAT(agents[1]->err(), HasSubstr("missing: node 2"));
}

TEST_F(RefusalFaults, C6_ANodeThatWaitsForNode0InVainSaysSoAtTheLimit) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const auto agent = launch_on(1, "print ready", {"--join-timeout", "2s"});
  EXPECT_EQ(agent->wait(), 202);
  EXPECT_TRUE(within(agent->lived(), 3s));
  EXPECT_THAT(agent->err(), HasSubstr("10.77.0.1:29500"));
}

TEST_F(RefusalFaults, C7_ANodeTooManyIsRefused) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto launch_any = [&](int node) {
    Command command{.arguments = cluster().enter(node)};
    for (const std::string& word : {std::string(DDP_LAUNCH),
                                    std::string("--nnodes=2"),
                                    std::string("--rdzv-backend=c10d"),
                                    "--rdzv-endpoint=" + Cluster::address(0) + ":29500",
                                    std::string("--rdzv-id=same"),
                                    std::string(DDP_FAKE_WORKER),
                                    std::string("print"),
                                    std::string("ready"),
                                    std::string("wait"),
                                    std::string("USR1")})
      command.arguments.push_back(word);
    return start(command);
  };
  Agents agents;
  agents.push_back(launch_any(0));
  agents.push_back(launch_any(1));
  ASSERT_TRUE(all_see(agents, "ready", 1));
  const auto extra = launch_any(2);
  expect_refused(*extra, {"node2", "node0"});
  const auto begin = steady_clock::now();
  signal_workers(SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 0, 1s));
}

TEST_F(RefusalFaults, C8_AnotherNumberOfNodesIsRefusedWithBothNumbers) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  auto node0 = launch_on(0, "print ready");
  ASSERT_TRUE(listens(*node0));
  const auto other = launch_on(1, "print ready", {"--nnodes", "3"});
  expect_refused(*other, {"node0", "node1", "--nnodes", "2", "3"});
  expect_unharmed(std::move(node0));
}

TEST_F(RefusalFaults, C8_ANodeRankOutOfRangeIsRefusedBeforeItJoins) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const auto agent = launch_on(1, "print ready", {"--node-rank", "2"});
  EXPECT_EQ(agent->wait(1s), 2);  // its own command line says so
  EXPECT_THAT(agent->err(), HasSubstr("--node-rank"));
}

// C8: different numbers of workers are not a difference.
TEST_F(RefusalFaults, C8_NodesMayHaveDifferentNumbersOfWorkers) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  Agents agents;
  agents.push_back(launch_on(0, "print ready environment", {"--nproc-per-node", "1"}));
  agents.push_back(launch_on(1, "print ready environment", {"--nproc-per-node", "3"}));
  EXPECT_TRUE(all_end(ends_of(agents, steady_clock::now()), 0, 5s));
  EXPECT_THAT(agents[0]->out(), HasSubstr("WORLD_SIZE=4\n"));
  for (const char* const rank : {"[1:1] ready", "[1:2] ready", "[1:3] ready", "WORLD_SIZE=4\n"})
    EXPECT_THAT(agents[1]->out(), HasSubstr(rank));
}

// On one host, by the loopback.
class LackingProgram : public ProcessTest {};

TEST_F(LackingProgram, W16_AProgramThatNodeZeroAloneLacksEndsEveryNodeByItsCode) {
  const int port = free_port();
  const auto launch_node = [&](int node, const std::string& program) {
    return launch({"--nnodes=2",
                   "--node-rank=" + std::to_string(node),
                   "--master-addr=127.0.0.1",
                   "--master-port=" + std::to_string(port),
                   "--no-python",
                   program,
                   "print",
                   "no"});
  };
  const auto one = launch_node(1, DDP_FAKE_WORKER);
  const auto zero = launch_node(0, "./no-such-program");
  EXPECT_EQ(zero->wait(), 127) << zero->err();
  EXPECT_THAT(zero->err(), HasSubstr("./no-such-program"));
  EXPECT_EQ(one->wait(), 127) << one->err();
  EXPECT_THAT(one->err(), HasSubstr("cannot execute its program"));
  EXPECT_EQ(one->out(), "") << "no worker was started";
}

}  // namespace
}  // namespace ddp::test
