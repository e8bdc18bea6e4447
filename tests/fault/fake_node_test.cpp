// A node that says what no honest one says, or says it too late: node 0 bears it, and the job ends
// as it should. Rows C12 and N of CASES.md, by a node that the test plays.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/support/fake_node.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace launcher;
using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr ExitStatus kFailed{7, 0, false};
constexpr ExitStatus kTerminated{0, SIGTERM, false};
constexpr ExitStatus kGood{0, 0, false};

class FakeNodeFaults : public ProcessTest {
 protected:
  /// Node 0 with one worker.
  std::unique_ptr<Running> launch_node0(const std::string& verbs,
                                        std::vector<std::string> flags = {}) {
    for (const std::string& flag : {std::string("--nnodes=2"),
                                    std::string("--node-rank=0"),
                                    std::string("--master-addr=127.0.0.1"),
                                    "--master-port=" + std::to_string(port_)})
      flags.push_back(flag);
    return launch_fakes(1, verbs, flags);
  }
  /// All workers of the node have been started.
  static GroupStarted started(int round) {
    return GroupStarted{
        round, std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(), {1000}};
  }

  int port_ = free_port();
};

TEST_F(FakeNodeFaults, C12_LateEventsOfAnOlderRoundChangeNothing) {
  const auto job = launch_node0("round 0 [ hold ] wait USR1", {"--max-restarts=1"});
  FakeNode node(port_);
  ASSERT_TRUE(node.next<StartRound>());
  node.send(started(0));
  node.send(node.exited(0, 0, kFailed));
  ASSERT_TRUE(node.next<EndRound>());
  node.send(node.group_ended(0, kFailed));
  const auto start = node.next<StartRound>();
  ASSERT_TRUE(start);
  EXPECT_EQ(start->round, 1);
  node.send(started(1));
  // All of it again, of round 0.
  node.send(node.exited(0, 0, ExitStatus{9, 0, false}));
  node.send(AgentFailed{0, 126, "late"});
  node.send(node.group_ended(0, kFailed));
  EXPECT_FALSE(node.next<EndRound>(1s));
  node.send(node.exited(1, 0, kFailed));
  const auto stop = node.next<EndRound>();
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->round, 1);
  node.send(node.group_ended(1, kFailed));
  const auto end = node.next<EndJob>();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 7);
  EXPECT_EQ(job->wait(), 7);
}

// The job must not wait for ever for a node that is heard but does not end its workers.
TEST_F(FakeNodeFaults, L4_ANodeThatIsHeardButNeverEndsItsWorkersIsLost) {
  const auto job = launch_node0("exit 5");
  FakeNode node(port_);
  ASSERT_TRUE(node.next<StartRound>());
  node.send(started(0));
  ASSERT_TRUE(node.next<EndRound>());
  EXPECT_TRUE(node.is_gone_within(60s));
  const int code = job->wait();
  EXPECT_TRUE(code == 5 || code == 201) << code;
}

TEST_F(FakeNodeFaults, C11_EventsOfWorkersThatDoNotExistHarmNobody) {
  const auto job = launch_node0("hold");
  FakeNode node(port_);
  ASSERT_TRUE(node.next<StartRound>());
  node.send(started(0));
  for (const int local_rank : {-1, 1, 1 << 30}) {
    WorkerEnded exited = node.exited(0, 0, kGood);
    exited.worker.local_rank = local_rank;
    exited.worker.ending.rank = local_rank;
    node.send(exited);
  }
  GroupEnded ended = node.group_ended(0, kGood);
  ended.workers.clear();
  node.send(ended);
  node.is_gone_within(2s);  // it may be dropped, or not listened to
  job->signal(SIGTERM);
  const int code = job->wait();
  EXPECT_TRUE(code == 128 + SIGTERM || code == 201) << code << job->err();
}

TEST_F(FakeNodeFaults, N5_ANodeThatFallsSilentIsLostWithin6s) {
  const auto job = launch_node0("hold");
  FakeNode node(port_);
  ASSERT_TRUE(node.next<StartRound>());
  node.send(started(0));
  node.live_for(500ms);
  const auto begin = Clock::now();
  EXPECT_EQ(job->wait(), 201);  // meanwhile the node neither reads nor sends
  const auto took = Clock::now() - begin;
  EXPECT_GE(took, 3900ms);
  if (!kInstrumented) {
    EXPECT_LE(took, 6s + 2s);
  }
}

TEST_F(FakeNodeFaults, L1_ANodeThatClosesItsLinkIsLostWithin1s) {
  const auto job = launch_node0("hold");
  auto node = std::make_unique<FakeNode>(port_);
  ASSERT_TRUE(node->next<StartRound>());
  node->send(started(0));
  node->live_for(500ms);
  const auto begin = Clock::now();
  node.reset();
  EXPECT_EQ(job->wait(), 201);
  if (!kInstrumented) {
    EXPECT_LE(Clock::now() - begin, 1s + 2s);
  }
  EXPECT_THAT(job->err(), HasSubstr("fake-node"));
}

}  // namespace
}  // namespace ddp::test
