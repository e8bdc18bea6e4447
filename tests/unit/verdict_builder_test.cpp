#include "launcher/plan/round/verdict_builder.h"

#include <gtest/gtest.h>

#include <csignal>

#include "common/exit_code.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

RoundResult failed_round(int code) {
  RoundResult round;
  WorkerReport worker;
  worker.pid = 17;
  worker.ending.status.code = code;
  round.workers = {worker};
  round.outcome = Failed{0, {}, code};
  round.exit_code = code;
  round.lived = 2s;
  return round;
}

VerdictBuilder after(const RoundResult& round) {
  VerdictBuilder verdict;
  verdict.note_begun(0, 1);
  verdict.note_result(round);
  return verdict;
}

VerdictBuilder::NotBegun why_not() {
  VerdictBuilder::NotBegun why;
  why.missing = "1 of 2 nodes is here";
  why.waited = 15s;
  return why;
}

TEST(VerdictBuilder, VerdictIsThatOfTheNewestRound) {
  VerdictBuilder verdict = after(failed_round(7));
  EXPECT_EQ(verdict.note_restart().find("round 0 failed after 2.0 s: rank 0 (pid 17), exit code 7"),
            0U);
  verdict.note_begun(1, 1);
  verdict.note_result(RoundResult());
  verdict.note_end(9s);
  EXPECT_EQ(verdict.value().exit_code, 0);
  EXPECT_TRUE(std::holds_alternative<Succeeded>(verdict.value().outcome));
  EXPECT_EQ(verdict.value().rounds, 2);
  EXPECT_EQ(verdict.value().earlier_rounds.size(), 1U);
  EXPECT_EQ(verdict.value().duration, 9s);
}

TEST(VerdictBuilder, OnlyTheNewestRoundsAreToldOf) {
  VerdictBuilder verdict;
  for (int round = 0; round < 25; ++round) {
    verdict.note_begun(round, 1);
    verdict.note_result(failed_round(7));
    verdict.note_restart();
  }
  ASSERT_EQ(verdict.value().earlier_rounds.size(), Verdict::kRoundLines);
  EXPECT_EQ(verdict.value().earlier_rounds.front().find("round 5 "), 0U);
}

TEST(VerdictBuilder, AProcessThatCannotBeKilledSpoilsAGoodEndOnly) {
  RoundResult good;
  good.unkilled = {"pid 5"};
  EXPECT_EQ(after(good).value().exit_code, exit_code::kInternal);
  RoundResult bad = failed_round(7);
  bad.unkilled = {"pid 5"};
  EXPECT_EQ(after(bad).value().exit_code, 7);
}

TEST(VerdictBuilder, APolicyThatGivesUpHasACodeOfItsOwn) {
  RestartDecision decision;
  decision.exit_code = exit_code::kNoRestart;
  decision.reason = "no round saved anything";
  VerdictBuilder verdict = after(failed_round(7));
  verdict.note_last_round(decision);
  EXPECT_EQ(verdict.value().exit_code, exit_code::kNoRestart);
  EXPECT_EQ(verdict.value().why_last_round, "no round saved anything");

  decision.exit_code = 7;  // the root cause's own: there is nothing to explain
  verdict = after(failed_round(7));
  verdict.note_last_round(decision);
  EXPECT_EQ(verdict.value().why_last_round, "");

  verdict = after(RoundResult());
  verdict.note_last_round(decision);
  EXPECT_EQ(verdict.value().exit_code, 0);
}

TEST(VerdictBuilder, WhyNoRoundBeginsIsTheFirstReasonThatApplies) {
  VerdictBuilder::NotBegun why = why_not();
  why.requested_signal = SIGINT;
  why.refusal = Refusal{127, "node 1 has no such program"};
  VerdictBuilder stopped;
  stopped.note_not_begun(why);
  EXPECT_EQ(stopped.value().exit_code, 130);
  EXPECT_EQ(std::get<Stopped>(stopped.value().outcome).signal, SIGINT);

  RoundResult hung = failed_round(124);
  hung.hang = "rank 0 hangs";
  VerdictBuilder after_hang = after(hung);
  after_hang.note_not_begun(why);
  EXPECT_EQ(after_hang.value().hang, "");

  why.requested_signal.reset();
  VerdictBuilder unable;
  unable.note_not_begun(why);
  EXPECT_EQ(unable.value().exit_code, 127);
  EXPECT_EQ(std::get<LauncherFailed>(unable.value().outcome).text, "node 1 has no such program");

  VerdictBuilder alone;
  alone.note_not_begun(why_not());
  EXPECT_EQ(alone.value().exit_code, exit_code::kRendezvous);
  EXPECT_EQ(std::get<LauncherFailed>(alone.value().outcome).text,
            "the job has not begun: 1 of 2 nodes is here; waited 15s. Start them with the same "
            "--nnodes, --master-addr and --master-port.");
}

TEST(VerdictBuilder, ALaterRoundThatDoesNotBeginLeavesTheLastOnesRootCause) {
  VerdictBuilder verdict = after(failed_round(7));
  verdict.note_restart();
  verdict.note_not_begun(why_not());
  EXPECT_EQ(verdict.value().exit_code, 7);
  EXPECT_EQ(verdict.value().why_last_round, "no other node came within 15s");
  EXPECT_TRUE(verdict.value().earlier_rounds.empty());  // it is the last one
}

TEST(VerdictBuilder, ANodeLostAfterItsPartIsWhyTooFewAreLeft) {
  VerdictBuilder verdict = after(failed_round(7));
  verdict.note_restart();
  VerdictBuilder::NotBegun why = why_not();
  why.waited = 0s;
  why.later_lost_node = NodeLost{1, "b", "silent for 5.1 s", {}};
  verdict.note_not_begun(why);
  EXPECT_EQ(verdict.value().exit_code, exit_code::kNodeLost);
  EXPECT_EQ(std::get<NodeLost>(verdict.value().outcome).node_rank, 1);
  EXPECT_EQ(verdict.value().why_last_round, "too few nodes are left");
  EXPECT_EQ(verdict.value().earlier_rounds.size(), 1U);
}

TEST(VerdictBuilder, TheLaunchersOwnFailureBlamesNoWorker) {
  VerdictBuilder verdict = after(failed_round(7));
  verdict.note_launcher_failed("the system refused something", exit_code::kInternal);
  EXPECT_EQ(verdict.value().exit_code, exit_code::kInternal);
  EXPECT_TRUE(verdict.value().workers.empty());
}

TEST(VerdictBuilder, ARoundThatCannotBeginIsNotCounted) {
  VerdictBuilder verdict;
  verdict.note_launcher_failed("no room on the disk", exit_code::kInternal);
  EXPECT_EQ(verdict.value().rounds, 0);
  VerdictBuilder later = after(failed_round(7));
  later.note_restart();
  later.note_launcher_failed("port 29500 is taken", exit_code::kRendezvous);
  EXPECT_EQ(later.value().rounds, 1);
}

}  // namespace
}  // namespace ddp::launcher
