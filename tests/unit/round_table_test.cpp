// Which reason stands for the end of a round: the table of round.h, row by row, each against the
// rows below it.
#include <gmock/gmock.h>

#include <csignal>

#include "common/exit_code.h"
#include "tests/unit/round_driver.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(RoundTable, Row1TheUsersStopBeforeAnyOtherReasonStands) {
  RoundDriver driver;
  driver.stop(SIGTERM);
  driver.round.note_own_node_slept("slept", kBegin + 1s);            // row 2
  driver.lose(1, 2s);                                                // row 4
  driver.end(0, {ended(0, 500ms, code(7)), ended(1, 2s, code(0))});  // row 6
  const RoundResult result = driver.result();
  EXPECT_EQ(result.outcome, Outcome(Stopped{SIGTERM}));
  EXPECT_EQ(result.exit_code, 143);
}

TEST(RoundTable, Row1AStopThatCameTooLateForAFinishedJobIsSuccess) {
  RoundDriver driver(usual_config(), {1});
  driver.stop(SIGINT);
  driver.end(0, {with_page(ended(0, 2s, code(0)), Phase::finished)});
  EXPECT_EQ(driver.result().outcome, Outcome(Succeeded()));
}

TEST(RoundTable, Row1AStopAfterAnotherReasonChangesNothing) {
  RoundDriver driver(usual_config(), {1, 1});
  driver.exit(0, ended(0, 1s, code(7)));
  driver.stop(SIGTERM, 2s);
  driver.end(0, {ended(0, 1s, code(7))});
  driver.end(1, all_stopped({1}));
  EXPECT_EQ(driver.result().exit_code, 7);
}

TEST(RoundTable, Row2TheLaunchersFailureBeatsALossAndAWorkersFailure) {
  RoundDriver driver;
  driver.fail(1, 126, "no memory");
  const EndRound command = driver.end_command();
  EXPECT_EQ(command.signal, SIGKILL);
  EXPECT_EQ(describe_end_round(command, 2, true), "node 1 (b): no memory; stopping 2 workers.");
  driver.lose(1, 2s);
  driver.end(0, {ended(0, 500ms, code(7)), ended(1, 2s, code(0))});
  const RoundResult result = driver.result();
  EXPECT_EQ(result.outcome, Outcome(LauncherFailed{126, "node 1 (b): no memory"}));
  EXPECT_EQ(result.exit_code, 126);
  EXPECT_THAT(result.workers, IsEmpty());
}

TEST(RoundTable, Row2OurOwnNodeThatWasFencedIsWhyTheOthersAreLost) {
  RoundDriver driver;
  driver.round.note_own_node_slept("this agent did not run for 7 s", kBegin + 1s);
  driver.lose(1, 2s);
  driver.end(0, all_stopped({0, 1}));
  EXPECT_EQ(driver.result().outcome,
            Outcome(LauncherFailed{exit_code::kNodeLost, "this agent did not run for 7 s"}));
}

TEST(RoundTable, Row2ASleepOfOurOwnAgentBeatsAStopRequestAndAFailureThatCameMeanwhile) {
  for (const bool is_stop : {true, false}) {
    RoundDriver driver;
    driver.round.note_own_node_slept("this agent did not run for 7 s", kBegin + 8s);
    if (is_stop) driver.stop(SIGTERM, 8s);
    driver.exit(1, ended(2, 3s, code(7)));
    driver.end(1, {ended(2, 3s, code(7)), all_stopped({3}).front()});
    driver.end(0, all_stopped({0, 1}));
    EXPECT_EQ(driver.result().exit_code, exit_code::kNodeLost);
  }
}

TEST(RoundTable, Row2AFenceInARoundThatWasBeingEndedIsNotTheCause) {
  RoundDriver driver;
  driver.exit(0, ended(0, 1s, code(7)));
  driver.round.note_own_node_slept("this agent did not run for 7 s", kBegin + 1s);
  driver.lose(1, 2s);
  driver.end(0, {ended(0, 1s, code(7)), all_stopped({1}).front()});
  EXPECT_EQ(driver.result().exit_code, 7);
}

TEST(RoundTable, Row2AFailureToStartThatFollowsFromTheEndIsNotTheCause) {
  RoundDriver driver;
  driver.exit(0, ended(0, 1s, code(7)));
  driver.fail(1, 126, "no memory");
  driver.end(0, {ended(0, 1s, code(7)), all_stopped({1}).front()});
  driver.end(1, {});
  EXPECT_EQ(driver.result().exit_code, 7);
}

TEST(RoundTable, Row3AHangBeatsALossAndAWorkersFailure) {
  RoundDriver driver;
  driver.hang(1);
  driver.lose(1, 20s);
  driver.end(0, {ended(0, 2s, code(7)), stopped(ended(1, 30s, killed_by(SIGTERM)))});
  const RoundResult result = driver.result();
  EXPECT_EQ(std::get<Failed>(result.outcome).root_cause, 1U);
  EXPECT_EQ(result.exit_code, exit_code::kTimeout);
  EXPECT_THAT(result.hang, HasSubstr("step 4"));
}

TEST(RoundTable, Row3WithoutTheEndOfTheRankThatHungTheLossStands) {
  RoundDriver driver;
  driver.hang(3);
  driver.lose(1, 20s);
  driver.end(0, all_stopped({0, 1}));
  EXPECT_EQ(std::get<NodeLost>(driver.result().outcome).node_rank, 1);
}

TEST(RoundTable, Row4ALossBeatsAFailureThatCameAfterTheNodesLastWord) {
  RoundDriver driver;
  driver.exit(0, ended(0, 3s, code(7)));  // seen first
  driver.lose(1, 2s);
  driver.end(0, {ended(0, 3s, code(7)), all_stopped({1}).front()});
  const RoundResult result = driver.result();
  EXPECT_EQ(std::get<NodeLost>(result.outcome).node_rank, 1);
  EXPECT_THAT(std::get<NodeLost>(result.outcome).victims, ElementsAre(0U, 1U));
  EXPECT_EQ(result.exit_code, exit_code::kNodeLost);
}

TEST(RoundTable, Row4AFailureWhileTheNodeWasStillHeardIsTheCause) {
  RoundDriver driver;
  driver.lose(1, 2s);  // seen first
  driver.end(0, {ended(0, 1s, code(7)), all_stopped({1}).front()});
  EXPECT_EQ(driver.result().exit_code, 7);
}

TEST(RoundTable, Row4WhatALostNodeToldAtOnceCounts) {
  RoundDriver driver;
  driver.exit(1, ended(2, 1s, killed_by(SIGSEGV)));
  driver.lose(1, 2s);
  driver.end(0, all_stopped({0, 1}));
  const RoundResult result = driver.result();
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_EQ(result.workers.at(std::get<Failed>(result.outcome).root_cause).host, "b");
}

TEST(RoundTable, Row5WhereAllLeaveAfterACheckpointTheJobIsStopped) {
  RoundDriver driver(usual_config(), {1, 1});
  const Ending first = with_page(ended(0, 1s, code(143)), Phase::training);
  Ending asked = with_page(ended(1, 2s, code(143)), Phase::training);
  asked.was_asked_elsewhere = true;
  driver.exit(0, first);
  driver.exit(1, asked);
  driver.end(0, {first});
  driver.end(1, {asked});
  const RoundResult result = driver.result();
  EXPECT_EQ(result.outcome, Outcome(Stopped{0, 1}));
  EXPECT_EQ(result.exit_code, 143);
}

TEST(RoundTable, Row6AFailureBeatsThoseWhoLeave) {
  RoundDriver driver(usual_config(), {1, 1});
  const Ending left = with_page(ended(0, 1s, code(143)), Phase::training);
  driver.exit(0, left);
  driver.exit(1, ended(1, 2s, code(7)));
  driver.end(0, {left});
  driver.end(1, {ended(1, 2s, code(7))});
  EXPECT_EQ(driver.result().exit_code, 7);
}

TEST(RoundTable, Row7ALostNodeWhoseWorkersHadAllFinishedIsNotDoneAgain) {
  RoundDriver driver(usual_config(), {1, 1});
  driver.exit(0, ended(0, 1s, code(0)));
  driver.exit(1, ended(1, 2s, code(0)));
  driver.lose(1, 3s);
  driver.end(0, {ended(0, 1s, code(0))});
  const RoundResult result = driver.result();
  EXPECT_TRUE(result.all_finished);
  EXPECT_EQ(result.exit_code, exit_code::kNodeLost);
}

}  // namespace
}  // namespace ddp::launcher
