// Node 0 gives commands that no honest one gives, or gives them too early or too late: the agent of
// another node ends all the same, and so do its workers. Row A6 of CASES.md; a race or a
// node 0 that fails in the middle of a round could do some of it too.
#include "tests/support/fake_node_zero.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <random>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace launcher;
using namespace std::chrono_literals;
using testing::HasSubstr;

class FakeNodeZeroFaults : public ProcessTest {
 protected:
  /// The agent of node 1, with two workers.
  std::unique_ptr<Running> launch_node1(const std::string& verbs) {
    return launch_fakes(2, verbs, flags(zero_));
  }
  /// Its code, while node 0 goes on to be heard; -1000 when it has not ended.
  static int code_of(Running& agent, FakeNodeZero& zero) {
    for (const auto end = Clock::now() + kTestTimeout; state_of(agent.pid()) != "Z";) {
      if (Clock::now() >= end) break;
      zero.live_for(20ms);
    }
    return agent.wait(1s);
  }
  int code_of(Running& agent) { return code_of(agent, zero_); }
  static std::vector<std::string> flags(const FakeNodeZero& zero) {
    return {"--nnodes=2",
            "--node-rank=1",
            "--master-addr=127.0.0.1",
            "--master-port=" + std::to_string(zero.port())};
  }
  static EndJob end_job_by(int code) {
    EndJob end;
    end.exit_code = code;
    end.report = "the fake verdict\n";
    return end;
  }
  static EndRound end_round_of(int round) {
    EndRound command;
    command.round = round;
    command.signal = SIGTERM;
    command.grace = 2s;
    command.what = "fake";
    return command;
  }

  FakeNodeZero zero_;
};

TEST_F(FakeNodeZeroFaults, A6_AnEndJobBeforeARoundEndsTheAgent) {
  const auto agent = launch_node1("hold");
  ASSERT_TRUE(zero_.is_joined_within(kTestTimeout));
  zero_.send(end_job_by(9));
  EXPECT_EQ(code_of(*agent), 9);
  EXPECT_THAT(agent->err(), HasSubstr("the fake verdict"));
}

TEST_F(FakeNodeZeroFaults, A6_AnEndJobInTheMiddleOfARoundEndsWorkersAndAgent) {
  const auto agent = launch_node1("on 1 [ ignore TERM ] hold");
  ASSERT_TRUE(zero_.is_joined_within(kTestTimeout));
  zero_.send(zero_.start_of(0));
  ASSERT_TRUE(zero_.next<GroupStarted>());
  zero_.send(end_job_by(9));
  EXPECT_EQ(code_of(*agent), 9) << agent->err();
  EXPECT_THAT(agent->err(), HasSubstr("node 0 has ended the job in the middle of the round"));
  EXPECT_THAT(agent->err(), HasSubstr("the fake verdict"));
}

TEST_F(FakeNodeZeroFaults, A6_AnEndJobRightBehindAStartOrAnEndRoundEndsTheAgent) {
  for (const bool has_end_round : {false, true}) {
    FakeNodeZero zero;
    const auto agent = launch_fakes(2, "hold", flags(zero));
    ASSERT_TRUE(zero.is_joined_within(kTestTimeout));
    zero.send(zero.start_of(0));
    if (has_end_round) zero.send(end_round_of(0));
    zero.send(end_job_by(9));
    zero.live_for(100ms);
    EXPECT_EQ(agent->wait(), 9) << agent->err();
  }
}

TEST_F(FakeNodeZeroFaults, A6_AStartBesideARoundIsNonsenseAndEndsTheNode) {
  const auto agent = launch_node1("hold");
  ASSERT_TRUE(zero_.is_joined_within(kTestTimeout));
  zero_.send(zero_.start_of(0));
  ASSERT_TRUE(zero_.next<GroupStarted>());
  zero_.send(zero_.start_of(1));
  EXPECT_EQ(code_of(*agent), 201) << agent->err();
}

TEST_F(FakeNodeZeroFaults, A6_AStartWithAnotherNumberOfWorkersIsNonsense) {
  const auto agent = launch_node1("hold");
  ASSERT_TRUE(zero_.is_joined_within(kTestTimeout));
  StartRound start = zero_.start_of(0);
  start.workers_of_node[1] = 2000;
  zero_.send(start);
  EXPECT_EQ(code_of(*agent), 201) << agent->err();
  EXPECT_EQ(agent->out().find("[1:"), std::string::npos);  // nothing was started
}

TEST_F(FakeNodeZeroFaults, A6_ANodeZeroThatCommandsNothingHoldsNobodyWhoAsksTwice) {
  for (const bool has_round : {false, true}) {
    FakeNodeZero zero;
    const auto agent = launch_fakes(2, "ignore TERM hold", flags(zero));
    ASSERT_TRUE(zero.is_joined_within(kTestTimeout));
    if (has_round) {
      zero.send(zero.start_of(0));
      ASSERT_TRUE(zero.next<GroupStarted>());
    } else {
      ASSERT_TRUE(zero.next<HeartbeatReply>());  // its loop runs
    }
    agent->signal(SIGTERM);
    ASSERT_TRUE(zero.next<StopRequested>());
    zero.live_for(200ms);
    agent->signal(SIGTERM);
    EXPECT_EQ(code_of(*agent, zero), 128 + SIGTERM) << agent->err();
    EXPECT_THAT(agent->err(), HasSubstr("SIGTERM came twice, and node 0 (fake-zero)"));
  }
}

TEST_F(FakeNodeZeroFaults, A6_ALinkThatEndsRightBehindAnEndJobLeavesNobodyWaiting) {
  const auto agent = launch_node1("hold");
  ASSERT_TRUE(zero_.is_joined_within(kTestTimeout));
  zero_.send(zero_.start_of(0));
  ASSERT_TRUE(zero_.next<GroupStarted>());
  zero_.send(end_job_by(9));  // as node 0 does when its system refuses something
  zero_.live_for(5ms);
  zero_.leave();
  EXPECT_EQ(agent->wait(), 9) << agent->err();
}

// Whatever comes, and whenever: the agent ends, at last by an EndJob, a closed link, or two
// signals, and nothing of it is left (TearDown looks).
TEST_F(FakeNodeZeroFaults, A6_AnyCommandsAtAnyTimeEndTheAgentWithNothingLeft) {
  constexpr int kJobs = 12;
  for (int seed = 0; seed < kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto pick = [&](int count) {
      return std::uniform_int_distribution<int>(0, count - 1)(random);
    };
    FakeNodeZero zero;
    const auto agent = launch_fakes(2, "hold", flags(zero));
    ASSERT_TRUE(zero.is_joined_within(kTestTimeout));
    int round = 0;
    for (int i = 0; i < 6; ++i) {
      const int meant = std::max(0, round - pick(2));
      switch (pick(5)) {
        case 0:
          zero.send(zero.start_of(round++));
          break;
        case 1:
          zero.send(AnnounceStop{meant, "fake"});
          break;
        case 2:
          zero.send(end_round_of(meant));
          break;
        case 3:
          if (pick(3) == 0) zero.send(end_job_by(9));
          break;
        default:
          zero.send(Heartbeat{pick(1000), {{0, "fake"}}});
      }
      zero.live_for(std::chrono::milliseconds(pick(60)));
    }
    const int last = pick(3);
    if (last == 0) zero.send(end_job_by(9));
    if (last == 1) zero.leave();
    for (int i = 0; i < 2 && last == 2; ++i) {
      agent->signal(SIGTERM);
      zero.live_for(200ms);
    }
    const int code = code_of(*agent, zero);
    EXPECT_TRUE(code == 9 || code == 201 || code == 128 + SIGTERM) << code << agent->err();
    EXPECT_TRUE(nothing_lives_within(kTestTimeout));
  }
}

// A longer stop is under way when node 0 goes: its grace is not waited for.
TEST_F(FakeNodeZeroFaults, A6_ALinkThatEndsDuringALongStopLeavesNoWorkerBehind) {
  const auto agent = launch_node1("ignore TERM print ready hold");
  ASSERT_TRUE(zero_.is_joined_within(kTestTimeout));
  zero_.send(zero_.start_of(0));
  ASSERT_TRUE(zero_.next<GroupStarted>());
  ASSERT_TRUE(agent->sees("ready"));
  EndRound stop = end_round_of(0);
  stop.grace = 10min;
  zero_.send(stop);
  ASSERT_TRUE(agent->sees("fake; stopping 2 workers"));
  zero_.leave();
  EXPECT_EQ(agent->wait(), 201) << agent->err();
}

// The first stop request cuts the collecting of stacks short, and still is the first of two: the
// second one kills, though node 0 is not there any more to count them.
TEST_F(FakeNodeZeroFaults, A6_AStopRequestWhileStacksAreCollectedIsTheFirstOfTwo) {
  const auto agent = launch_node1("catch USR2 ignore TERM print ready hold");
  ASSERT_TRUE(zero_.is_joined_within(kTestTimeout));
  zero_.send(zero_.start_of(0));
  ASSERT_TRUE(zero_.next<GroupStarted>());
  ASSERT_TRUE(agent->sees("ready"));
  EndRound command = end_round_of(0);
  command.reason = EndReason::hang;
  command.grace = 10min;
  zero_.send(command);
  ASSERT_TRUE(agent->sees("asking the workers for their stacks"));
  agent->signal(SIGTERM);
  ASSERT_TRUE(agent->sees("a second one kills them now"));
  ASSERT_TRUE(zero_.next<StopRequested>());
  zero_.leave();
  ASSERT_TRUE(agent->sees("node 0 (fake-zero) is lost"));
  const auto begin = Clock::now();
  agent->read_for(200ms);  // a signal that comes sooner is the same one
  agent->signal(SIGTERM);
  EXPECT_EQ(agent->wait(), 201) << agent->err();
  if (!kInstrumented) {
    EXPECT_LT(Clock::now() - begin, 2s) << "the guard kills 5 s after the last heartbeat";
  }
}

}  // namespace
}  // namespace ddp::test
