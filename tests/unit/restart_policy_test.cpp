#include "launcher/plan/round/restart_policy.h"

#include <gmock/gmock.h>

#include <vector>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

RoundResult failed(int exit_code, std::chrono::nanoseconds lived = 1min) {
  RoundResult round;
  round.outcome = Failed{};
  round.exit_code = exit_code;
  round.lived = lived;
  return round;
}

TEST(RestartPolicy, RestartsAtOnceUntilItsRestartsAreUsedUp) {
  RestartPolicy policy(RestartLimits{2});
  for (int used = 1; used <= 2; ++used) {
    const RestartDecision decision = policy.decide(failed(7));
    EXPECT_TRUE(decision.restart);
    EXPECT_EQ(decision.pause, 0ms);
    EXPECT_EQ(policy.next_round(), used);
    EXPECT_EQ(policy.remaining(), 2 - used);
  }
  const RestartDecision last = policy.decide(failed(7));
  EXPECT_FALSE(last.restart);
  EXPECT_EQ(last.exit_code, 7);
  EXPECT_EQ(last.reason, "all 2 restarts are used up");
}

TEST(RestartPolicy, WithoutRestartsNothingIsSaid) {
  RestartPolicy policy(RestartLimits{0});
  const RestartDecision decision = policy.decide(failed(7));
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.reason, "");
}

TEST(RestartPolicy, WhoLeavesADebuggerWantsNoOtherOne) {
  RoundResult round = failed(1);
  round.had_debugger = true;
  const RestartDecision decision = RestartPolicy(RestartLimits{3}).decide(round);
  EXPECT_FALSE(decision.restart);
  EXPECT_THAT(decision.reason, HasSubstr("debugger"));
}

TEST(RestartPolicy, OnlyAFailureIsRestarted) {
  for (const Outcome& outcome :
       {Outcome(Succeeded()), Outcome(Stopped{15}), Outcome(Stopped{0, 1})}) {
    RoundResult round = failed(0);
    round.outcome = outcome;
    EXPECT_FALSE(RestartPolicy(RestartLimits{3}).decide(round).restart);
  }
}

TEST(RestartPolicy, ALostNodeIsRestartedWhileThereAreEnough) {
  RoundResult round = failed(201);
  round.outcome = NodeLost{1, "b", "silent for 5.1 s", {}};
  EXPECT_TRUE(RestartPolicy(RestartLimits{3}).decide(round).restart);
  EXPECT_EQ(RestartPolicy(RestartLimits{0}).decide(round).reason, "");
  for (const Outcome& outcome : {round.outcome, failed(7).outcome}) {
    round.outcome = outcome;
    round.can_go_on = false;
    const RestartDecision decision = RestartPolicy(RestartLimits{3}).decide(round);
    EXPECT_FALSE(decision.restart);
    EXPECT_EQ(decision.reason, "too few nodes are left");
  }
}

TEST(RestartPolicy, LostNodesMayBeFree) {
  RestartLimits limits;
  limits.lost_nodes_are_free = true;
  RestartPolicy policy(limits);
  RoundResult round = failed(201);
  round.outcome = NodeLost{1, "b", "silent for 5.1 s", {}};
  EXPECT_TRUE(policy.decide(round).restart);
  EXPECT_TRUE(policy.decide(round).restart);
  EXPECT_EQ(policy.next_round(), 2);
  EXPECT_EQ(policy.remaining(), 0);
  EXPECT_FALSE(policy.decide(failed(7)).restart);
}

TEST(RestartPolicy, SomeCodesAreNeverRestarted) {
  for (const int code : {2, 93, 126, 127, 203}) {
    const RestartDecision decision = RestartPolicy(RestartLimits{3}).decide(failed(code));
    EXPECT_FALSE(decision.restart) << code;
    EXPECT_EQ(decision.exit_code, code);
    EXPECT_THAT(decision.reason, HasSubstr("never restarted"));
  }
  for (const int code : {1, 7, 96, 97, 124, 125, 134, 137, 139, 143, 201, 202}) {
    EXPECT_TRUE(RestartPolicy(RestartLimits{3}).decide(failed(code)).restart) << code;
  }
}

TEST(RestartPolicy, NoRoundFollowsAnUninterruptibleSleepThatEndedOne) {
  RoundResult round = failed(124);
  round.is_final = true;
  const RestartDecision decision = RestartPolicy(RestartLimits{3}).decide(round);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.exit_code, 124);
  EXPECT_THAT(decision.reason, HasSubstr("uninterruptible sleep"));
}

TEST(RestartPolicy, ShortRoundsInARowArePausedFromTheSecondOn) {
  RestartPolicy policy(RestartLimits{100, 30s});
  std::vector<std::int64_t> pauses;
  for (int i = 0; i < 8; ++i)
    pauses.push_back(policy.decide(failed(1, 5s)).pause / 1s);
  EXPECT_THAT(pauses, ElementsAre(0, 1, 2, 4, 8, 16, 30, 30));
  EXPECT_EQ(policy.decide(failed(1, 30s)).pause, 0s);  // a long one: from the beginning
  EXPECT_EQ(policy.decide(failed(1, 5s)).pause, 0s);
  EXPECT_EQ(policy.decide(failed(1, 5s)).pause, 1s);
}

TEST(RestartPolicy, ThreeRoundsWithoutANewerCheckpointEndTheJob) {
  RestartPolicy policy(RestartLimits{100});
  RoundResult round = failed(1);
  round.tells_checkpoints = true;
  round.checkpoint_step = 40;
  EXPECT_TRUE(policy.decide(round).restart);
  EXPECT_TRUE(policy.decide(round).restart);
  EXPECT_TRUE(policy.decide(round).restart);
  const RestartDecision last = policy.decide(round);
  EXPECT_FALSE(last.restart);
  EXPECT_EQ(last.exit_code, 93);
  EXPECT_THAT(last.reason, HasSubstr("3 rounds without a newer checkpoint"));
}

TEST(RestartPolicy, AJobThatNeverSavesEndsAfterThreeRounds) {
  RestartPolicy policy(RestartLimits{100});
  RoundResult round = failed(1);
  round.tells_checkpoints = true;
  EXPECT_TRUE(policy.decide(round).restart);
  EXPECT_TRUE(policy.decide(round).restart);
  EXPECT_EQ(policy.decide(round).exit_code, 93);
}

TEST(RestartPolicy, ANewerCheckpointCountsAsProgress) {
  RestartPolicy policy(RestartLimits{100});
  RoundResult round = failed(1);
  round.tells_checkpoints = true;
  for (int i = 0; i < 10; ++i) {
    round.checkpoint_step = i / 2;
    EXPECT_TRUE(policy.decide(round).restart) << i;
  }
}

TEST(RestartPolicy, ExternalProgramsNeedNoCheckpoint) {
  RestartPolicy policy(RestartLimits{100});
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(policy.decide(failed(1)).restart);
}

TEST(RestartPolicy, AFinishedJobIsNotDoneAgain) {
  RoundResult round;
  round.outcome = NodeLost{1, "b", "silent", {}};
  round.exit_code = 201;
  round.all_finished = true;
  const RestartDecision decision = RestartPolicy(RestartLimits{3, 30s, true}).decide(round);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.exit_code, 201);
  EXPECT_EQ(decision.reason, "every worker had finished before the node was lost");
}

TEST(RestartPolicy, UnkilledProcessesPreventARestart) {
  RoundResult round = failed(1);
  round.unkilled = {"pid 5"};
  EXPECT_FALSE(RestartPolicy(RestartLimits{3}).decide(round).restart);
}

}  // namespace
}  // namespace ddp::launcher
