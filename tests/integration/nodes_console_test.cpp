// What the consoles of several nodes show of one job: no node looks dead.
#include <gmock/gmock.h>

#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class NodesConsole : public ClusterTest {
 protected:
  /// On a terminal, as somebody sees it who sits there.
  std::unique_ptr<Running> launch_on_terminal(int node, const std::string& verbs) {
    Command command{.arguments = cluster().enter(node)};
    const std::string line = std::string(DDP_LAUNCH) + " --nnodes 2 --node-rank " +
                             std::to_string(node) + " --master-addr " + Cluster::address(0) +
                             " --nproc-per-node 2 --grace 2s " + DDP_FAKE_WORKER + " " + verbs;
    for (const std::string& word :
         {std::string("script"), std::string("-qefc"), line, std::string("/dev/null")})
      command.arguments.push_back(word);
    return start(std::move(command));
  }
};

TEST_F(NodesConsole, EachSaysWhatItRunsAndWhereItsLogsAre) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const Agents agents = launch_everywhere("exit 0", {"--output", scratch() / "runs"});
  for (const auto& agent : agents)
    EXPECT_EQ(agent->wait(), 0) << agent->err();
  const std::string logs = (scratch() / "runs/fake_worker/logs/round-0").string();
  EXPECT_THAT(agents[0]->err(), HasSubstr("node 0 (node0): ranks 0-1, device cpu, logs " + logs));
  EXPECT_THAT(agents[1]->err(), HasSubstr("node 1 (node1): ranks 2-3, device cpu, logs " + logs));
}

TEST_F(NodesConsole, TheJobsLineIsLiveOnATerminalOfEveryNode) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const std::string verbs = "sleep 2 print half sleep 4 print whole";
  Agents agents;
  agents.push_back(launch_on_terminal(0, verbs));
  agents.push_back(launch_on_terminal(1, verbs));
  constexpr const char* kErase = "\r\x1b[K";
  for (const auto& agent : agents) {
    EXPECT_TRUE(agent->sees("ddp-launch: 4 of 4 ranks run, no output of rank 0 yet"))
        << agent->out();
    EXPECT_TRUE(agent->sees(" s since the last output of rank ")) << agent->out();
    EXPECT_EQ(agent->wait(), 0) << agent->out();
    // It is gone before a line of a worker comes, and at the end.
    EXPECT_THAT(agent->out(),
                ContainsRegex("ranks run, no output of rank 0 yet, elapsed [0-9:]+\r\x1b\\[K"));
    const std::size_t last = agent->out().rfind("ranks run");
    EXPECT_THAT(agent->out().substr(last), HasSubstr(kErase));
  }
  EXPECT_EQ(count(agents[0]->out(), "half\r\n"), 2U) << agents[0]->out();
}

TEST_F(NodesConsole, WithoutATerminalThereIsNoLiveLineInAShortJob) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const Agents agents = launch_everywhere("sleep 2 exit 0");
  for (const auto& agent : agents) {
    EXPECT_EQ(agent->wait(), 0) << agent->err();
    EXPECT_THAT(agent->err(), Not(HasSubstr("ranks run")));
    EXPECT_THAT(agent->err(), Not(HasSubstr("\x1b[K")));
  }
}

}  // namespace
}  // namespace ddp::test
