#include "launcher/plan/failure/root_cause.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

Ending ending_of(int rank, std::chrono::nanoseconds at, ExitStatus status) {
  Ending ending;
  ending.rank = rank;
  ending.at = at;
  ending.status = status;
  return ending;
}
Ending told_to_stop(Ending ending, bool killed = false) {
  ending.stop_sent = true;
  ending.kill_sent = killed;
  return ending;
}
const ExitStatus kGood{};
const ExitStatus kTerm{0, SIGTERM, false};
const ExitStatus kKill{0, SIGKILL, false};
ExitStatus exited(int value) {
  return ExitStatus{value, 0, false};
}

std::size_t root_of(const std::vector<Ending>& endings) {
  return std::get<Failed>(judge(endings, {})).root_cause;
}

EndFacts stopped_by(int signal) {
  EndFacts facts;
  facts.requested_signal = signal;
  return facts;
}

EndFacts hung(int rank) {
  EndFacts facts;
  facts.hung_rank = rank;
  return facts;
}

/// Its last word came `at`.
EndFacts lost(std::chrono::milliseconds at) {
  EndFacts facts;
  facts.lost_node = NodeLost{1, "b", "silent for 5.1 s", {}};
  facts.last_heard = at;
  return facts;
}

TEST(RootCause, AllGoodIsSuccess) {
  EXPECT_EQ(judge(std::vector{ending_of(0, 1ns, kGood), ending_of(1, 2ns, kGood)}, {}),
            Outcome(Succeeded()));
}

TEST(RootCause, TheEarliestFailureIsTheRootCause) {
  const std::vector endings{ending_of(0, 20ns, exited(3)), ending_of(1, 10ns, exited(7))};
  EXPECT_EQ(root_of(endings), 1U);
  EXPECT_EQ(exit_code_of(judge(endings, {}), endings), 7);
}

TEST(RootCause, AWorkerThatDiesOfOurSigabrtWasStoppedAndHasNotFailed) {
  const ExitStatus aborted{0, SIGABRT, false};
  Ending ending = told_to_stop(ending_of(1, 1ns, aborted));
  EXPECT_FALSE(was_ended_by_us(ending));
  ending.abort_sent = true;
  EXPECT_TRUE(was_ended_by_us(ending));
  ending.status = exited(134);  // a shell says it of its Python
  EXPECT_TRUE(was_ended_by_us(ending));
  ending.status = exited(1);
  EXPECT_FALSE(was_ended_by_us(ending));
}

TEST(RootCause, ATieGoesToTheLowerRank) {
  EXPECT_EQ(root_of({ending_of(0, 5ns, exited(1)), ending_of(1, 5ns, exited(2))}), 0U);
}

TEST(RootCause, AFailureAfterTheOrderToEndIsAVictimWhateverTheNodesClockSays) {
  EXPECT_EQ(root_of({told_to_stop(ending_of(0, 1ns, exited(11))), ending_of(1, 9ns, exited(5))}),
            1U);
}

TEST(RootCause, ALostPeerIsAVictimOfALaterFailure) {
  EXPECT_EQ(root_of({ending_of(0, 1ns, exited(97)), ending_of(1, 9ns, exited(5))}), 1U);
  EXPECT_EQ(root_of({ending_of(0, 1ns, exited(97)), told_to_stop(ending_of(1, 9ns, exited(5)))}),
            1U);
}

TEST(RootCause, ALostPeerAloneIsTheRootCause) {
  EXPECT_EQ(root_of({ending_of(0, 1ns, exited(97)), told_to_stop(ending_of(1, 9ns, kTerm))}), 0U);
}

TEST(RootCause, AWorkerThatWeStoppedIsAVictim) {
  EXPECT_EQ(root_of({told_to_stop(ending_of(0, 1ns, kTerm)), ending_of(1, 9ns, exited(5))}), 1U);
  EXPECT_EQ(root_of({told_to_stop(ending_of(0, 1ns, exited(143))), ending_of(1, 9ns, exited(5))}),
            1U);
  EXPECT_EQ(root_of({told_to_stop(ending_of(0, 1ns, kKill), true), ending_of(1, 9ns, exited(5))}),
            1U);
}

TEST(RootCause, AKillThatWeDidNotSendIsARootCauseEvenAfterOurSigterm) {
  // Its peer noticed the death before the kernel had freed its memory, and left with 97.
  EXPECT_EQ(root_of({ending_of(0, 1ns, exited(97)), told_to_stop(ending_of(1, 9ns, kKill))}), 1U);
}

TEST(RootCause, VictimsAreInOrderOfTime) {
  const std::vector endings{ending_of(0, 30ns, exited(1)),
                            ending_of(1, 10ns, exited(2)),
                            ending_of(2, 20ns, exited(3)),
                            ending_of(3, 5ns, kGood)};
  EXPECT_EQ(std::get<Failed>(judge(endings, {})).victims, (std::vector<std::size_t>{2, 0}));
}

TEST(RootCause, LeavingBeforeTheEndIsAFailureOnlyWithAPage) {
  Ending early = ending_of(0, 1ns, kGood);
  early.phase = Phase::training;
  EXPECT_FALSE(has_failed(early));
  early.opened_page = true;
  EXPECT_TRUE(has_failed(early));
  EXPECT_EQ(exit_code_of(judge(std::vector{early}, {}), std::vector{early}), 125);
  early.phase = Phase::finished;
  EXPECT_FALSE(has_failed(early));
}

TEST(RootCause, APageThatWasOnlyOpenedPromisesNothing) {
  Ending early = ending_of(0, 1ns, kGood);
  early.opened_page = true;
  early.phase = Phase::starting;
  EXPECT_FALSE(has_failed(early));
  EXPECT_EQ(judge(std::vector{early}, {}), Outcome(Succeeded()));
  early.phase = Phase::joining;
  EXPECT_TRUE(has_failed(early));
}

TEST(RootCause, AJobWhoseEveryWorkerHasSavedEndsBy143) {
  Ending saved = told_to_stop(ending_of(0, 1ns, exited(143)));
  saved.opened_page = true;
  const std::vector all{saved, saved};
  EXPECT_EQ(exit_code_of(judge(all, stopped_by(SIGINT)), all), 143);
  const std::vector one{saved, told_to_stop(ending_of(1, 2ns, kKill), true)};
  EXPECT_EQ(exit_code_of(judge(one, stopped_by(SIGINT)), one), 130);
}

TEST(RootCause, AStopWhoseCheckpointCouldNotBeSavedIsNoGoodStop) {
  Ending unsaved = told_to_stop(ending_of(0, 2ns, exited(125)));
  unsaved.opened_page = true;
  Ending victim = told_to_stop(ending_of(1, 1ns, exited(97)));
  victim.opened_page = true;
  const std::vector all{unsaved, victim};
  EXPECT_EQ(judge(all, stopped_by(SIGTERM)), Outcome(Stopped{SIGTERM}));
  EXPECT_EQ(exit_code_of(judge(all, stopped_by(SIGTERM)), all), 125);
  std::vector external = all;
  external[0].opened_page = false;
  EXPECT_EQ(exit_code_of(judge(external, stopped_by(SIGTERM)), external), 143);
}

TEST(RootCause, AWorkerThatSavedAndLeftUnaskedByUsStopsTheJob) {
  Ending first = ending_of(0, 9ns, exited(143));
  first.opened_page = true;
  EXPECT_TRUE(stopped_after_checkpoint(first));
  EXPECT_FALSE(has_failed(first));
  Ending second = first;
  second.rank = 1;
  second.at = 5ns;
  const std::vector all{first, second};
  EXPECT_EQ(judge(all, {}), Outcome(Stopped{0, 1}));
  EXPECT_EQ(exit_code_of(judge(all, {}), all), 143);
}

TEST(RootCause, AWorkerThatWasAskedToStopIsNamedWhoeverLeavesFirst) {
  Ending follower = ending_of(0, 5ns, exited(143));
  follower.opened_page = true;
  Ending asked = follower;
  asked.rank = 1;
  asked.at = 9ns;
  asked.was_asked_elsewhere = true;
  EXPECT_EQ(judge(std::vector{follower, asked}, {}), Outcome(Stopped{0, 1}));
  EXPECT_EQ(root_of({follower, asked, ending_of(2, 20ns, exited(5))}), 2U)
      << "a failure comes first";
}

TEST(RootCause, AnExternalWorkersOwn143IsAFailure) {
  EXPECT_TRUE(has_failed(ending_of(0, 1ns, exited(143))));
  EXPECT_EQ(root_of({ending_of(0, 1ns, exited(143)), ending_of(1, 2ns, kGood)}), 0U);
}

TEST(RootCause, AFailureIsTheRootCauseEvenAfterOneHasLeft) {
  Ending left = ending_of(0, 1ns, exited(143));
  left.opened_page = true;
  EXPECT_EQ(root_of({left, ending_of(1, 9ns, exited(5))}), 1U);
  EXPECT_EQ(root_of({left, ending_of(1, 9ns, exited(97))}), 1U);
}

TEST(RootCause, AWorkerThatLeftAloneIsTheRootCauseWhenTheOthersHadToBeStopped) {
  Ending left = ending_of(0, 1ns, exited(143));
  left.opened_page = true;
  Ending followed_us = told_to_stop(ending_of(1, 9ns, exited(143)));
  followed_us.opened_page = true;
  EXPECT_EQ(root_of({left, followed_us}), 0U);
  EXPECT_EQ(root_of({left, told_to_stop(ending_of(1, 9ns, kKill), true)}), 0U);
}

Ending joined(Ending ending) {
  ending.joined_store = true;
  return ending;
}

// The table of root_cause.h: each row goes before those below it, though it ended later.
TEST(RootCause, RootCauseIsTheFailureOfTheEarlierRow) {
  const auto saved = [](int rank, std::chrono::nanoseconds at, bool is_asked) {
    Ending ending = ending_of(rank, at, exited(143));
    ending.opened_page = true;
    ending.was_asked_elsewhere = is_asked;
    return ending;
  };
  const auto aborted = [](int rank, std::chrono::nanoseconds at) {
    Ending ending = told_to_stop(ending_of(rank, at, exited(134)));
    ending.abort_sent = true;
    return ending;
  };
  const std::vector<std::vector<Ending>> rows{
      {ending_of(0, 90ns, exited(5)), ending_of(0, 90ns, kKill), ending_of(0, 90ns, kTerm)},
      {told_to_stop(ending_of(1, 80ns, exited(5))), told_to_stop(ending_of(1, 80ns, kKill))},
      {ending_of(2, 70ns, exited(97))},
      {told_to_stop(ending_of(3, 60ns, exited(97)))},
      {saved(4, 50ns, true)},
      {saved(5, 40ns, false)},
      {told_to_stop(ending_of(6, 30ns, kTerm)),
       told_to_stop(ending_of(6, 30ns, exited(143))),
       told_to_stop(ending_of(6, 30ns, kKill), true),
       aborted(6, 30ns)}};
  for (std::size_t first = 0; first < rows.size(); ++first) {
    for (std::size_t second = first + 1; second < rows.size(); ++second) {
      for (const Ending& cause : rows[first]) {
        for (const Ending& victim : rows[second]) {
          // Who has left as it was asked, and is followed by all, has stopped the job.
          const Outcome outcome = judge(std::vector{victim, cause}, {});
          const auto* const stop = std::get_if<Stopped>(&outcome);
          const int root =
              stop != nullptr
                  ? stop->asked_rank
                  : (std::get<Failed>(outcome).root_cause == 1 ? cause.rank : victim.rank);
          EXPECT_EQ(root, cause.rank) << "rows " << first + 1 << " and " << second + 1;
          EXPECT_EQ(stop != nullptr, first == 4 && second == 5);
        }
      }
    }
  }
}

TEST(RootCause, AHungRankIsTheRootCauseAndTheCodeIsTheTimeouts) {
  const std::vector endings{told_to_stop(ending_of(0, 9ns, kTerm)),
                            told_to_stop(ending_of(1, 8ns, kTerm))};
  const Outcome outcome = judge(endings, hung(1));
  EXPECT_EQ(std::get<Failed>(outcome).root_cause, 1U);
  EXPECT_EQ(std::get<Failed>(outcome).victims, std::vector<std::size_t>{0});
  EXPECT_EQ(exit_code_of(outcome, endings), 124);
}

TEST(RootCause, ALeaverOfTheStoreIsTheRootCauseOfALaterFailure) {
  const std::vector endings{joined(ending_of(0, 1ns, kGood)), joined(ending_of(1, 9ns, exited(7)))};
  EXPECT_EQ(root_of(endings), 0U);
  EXPECT_EQ(exit_code_of(judge(endings, {}), endings), 7);
  const std::vector other_command{joined(ending_of(0, 9ns, kGood)),
                                  joined(ending_of(1, 1ns, exited(7)))};
  EXPECT_EQ(root_of(other_command), 1U);
}

TEST(RootCause, AWorkerThatNeverMetTheOthersCannotHaveLeftThem) {
  EXPECT_EQ(root_of({ending_of(0, 1ns, kGood), ending_of(1, 9ns, exited(7))}), 1U);
  EXPECT_EQ(root_of({joined(ending_of(0, 1ns, kGood)), ending_of(1, 9ns, exited(7))}), 1U);
  EXPECT_EQ(root_of({ending_of(0, 1ns, kGood), joined(ending_of(1, 9ns, exited(7)))}), 1U);
}

TEST(RootCause, AFrozenRankIsTheRootCauseWhenItsPeerGivesUp) {
  Ending frozen = told_to_stop(ending_of(0, 9ns, kTerm));
  frozen.was_frozen = true;
  const std::vector endings{frozen, ending_of(1, 1ns, exited(97))};
  EXPECT_EQ(root_of(endings), 0U);
  EXPECT_EQ(exit_code_of(judge(endings, {}), endings), 97);
  // One that died of a signal of its own did not wait for anybody.
  EXPECT_EQ(root_of({frozen, ending_of(1, 1ns, ExitStatus{0, SIGSEGV, false})}), 1U);
}

TEST(RootCause, AStoppedJobEndsBySignal) {
  const std::vector endings{told_to_stop(ending_of(0, 1ns, exited(143))),
                            told_to_stop(ending_of(1, 2ns, exited(1)))};
  EXPECT_EQ(judge(endings, stopped_by(SIGINT)), Outcome(Stopped{SIGINT}));
  EXPECT_EQ(exit_code_of(judge(endings, stopped_by(SIGINT)), endings), 130);
}

TEST(RootCause, AStopThatCameTooLateChangesNothing) {
  Ending finished = told_to_stop(ending_of(0, 1ns, kGood));
  finished.opened_page = true;
  finished.phase = Phase::finished;
  EXPECT_EQ(judge(std::vector{finished}, stopped_by(SIGTERM)), Outcome(Succeeded()));
}

TEST(RootCause, SignalsAre128Plus) {
  const std::vector endings{ending_of(0, 1ns, ExitStatus{0, SIGSEGV, true})};
  EXPECT_EQ(exit_code_of(judge(endings, {}), endings), 139);
}

TEST(RootCause, ALostNodeIsTheRootCauseOfWhatFailedAfterItsLastWord) {
  const std::vector endings{ending_of(0, 6s, exited(1)), told_to_stop(ending_of(1, 7s, kTerm))};
  const Outcome outcome = judge(endings, lost(5s));
  ASSERT_TRUE(std::holds_alternative<NodeLost>(outcome));
  EXPECT_EQ(std::get<NodeLost>(outcome).victims, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(exit_code_of(outcome, endings), 201);
  EXPECT_TRUE(std::holds_alternative<NodeLost>(judge({}, lost(5s))));
}

TEST(RootCause, AFailureBeforeTheLastWordOfALostNodeIsTheRootCause) {
  const std::vector endings{ending_of(0, 4s, exited(7)), told_to_stop(ending_of(1, 7s, kTerm))};
  EXPECT_EQ(exit_code_of(judge(endings, lost(5s)), endings), 7);
  // Who lost a peer, may have lost that node.
  const std::vector peers{ending_of(0, 4s, exited(97))};
  EXPECT_TRUE(std::holds_alternative<NodeLost>(judge(peers, lost(5s))));
}

TEST(RootCause, AWorkerThatLeftIsNotTheCauseOfWhatFailsAfterItsGroup) {
  const Ending left = joined(ending_of(0, 1ns, kGood));
  Ending failure = joined(ending_of(1, 9ns, exited(1)));
  EXPECT_EQ(root_of({left, failure}), 0U);
  failure.had_left_store = true;
  EXPECT_EQ(root_of({left, failure}), 1U);
}

TEST(RootCause, AWorkerThatExitsBeforeItJoinsIsTheCauseWhenAnotherGivesUpWaiting) {
  Ending waiter = ending_of(0, 9ns, exited(1));
  waiter.joined_store = true;
  const Ending absent = ending_of(1, 2ns, kGood);
  EXPECT_EQ(root_of({waiter, absent}), 0U) << "it failed for a reason of its own";
  waiter.waited_in_store = true;
  EXPECT_EQ(root_of({waiter, absent}), 1U);
  EXPECT_EQ(root_of({waiter, ending_of(1, 10ns, kGood)}), 0U) << "it left later";
}

}  // namespace
}  // namespace ddp::launcher
