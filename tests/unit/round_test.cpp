#include "launcher/plan/round/round.h"

#include <gmock/gmock.h>

#include <csignal>
#include <functional>

#include "common/exit_code.h"
#include "launcher/plan/hang/stack_sources.h"
#include "launcher/plan/round/end_round_line.h"
#include "launcher/plan/round/survivor_wait.h"
#include "tests/unit/round_driver.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// --- Who comes to an end, and when.

TEST(Round, TheStoreAnswersOnceEveryNodeHasStarted) {
  RoundDriver driver;
  GroupStarted started;
  started.pids = {11, 12};
  driver.round.note_group_started(0, started);
  EXPECT_THAT(driver.round.take_actions(), IsEmpty());
  started.pids = {21, 22};
  driver.round.note_group_started(1, started);
  const std::vector<Round::Action> commands = driver.round.take_actions();
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<Round::ReleaseStore>(commands.front()));
  EXPECT_EQ(driver.round.workers().at(3).pid, 22);
  driver.round.note_group_started(1, started);
  EXPECT_THAT(driver.round.take_actions(), IsEmpty());
}

TEST(Round, NoWorkerHangsBeforeEveryNodeHasStarted) {
  RoundDriver driver;
  driver.round.note_group_started(0, GroupStarted());
  driver.hold_up(1);
  EXPECT_FALSE(driver.round.is_ending());
  driver.start_groups();
  driver.hold_up(1, 70s);
  EXPECT_TRUE(driver.round.is_ending());
  EXPECT_GE(driver.hung_at, 75s);
}

TEST(Round, ARoundWhoseWorkersAllEndWellIsSuccess) {
  RoundDriver driver;
  for (int rank = 0; rank < 4; ++rank)
    driver.exit(rank / 2, ended(rank, 5s, code(0)));
  EXPECT_EQ(driver.end_command().reason, EndReason::all_ended);
  EXPECT_FALSE(driver.round.is_over());
  driver.end(0, {ended(0, 5s, code(0)), ended(1, 5s, code(0))});
  driver.end(1, {ended(2, 5s, code(0)), ended(3, 5s, code(0))});
  const RoundResult result = driver.result();
  EXPECT_EQ(result.outcome, Outcome(Succeeded()));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.workers, SizeIs(4));
}

TEST(Round, TheFirstFailureStopsTheOthersOnEveryNodeOnce) {
  RoundDriver driver;
  driver.exit(1, ended(3, 2s, code(7)));
  const EndRound command = driver.end_command();
  EXPECT_EQ(command.signal, SIGTERM);
  EXPECT_EQ(command.grace, 30s);
  EXPECT_EQ(describe_end_round(command, 1, true),
            "rank 3 (node 1, b, pid 103) has failed: exit code 7; stopping the other 1 worker.");
  driver.exit(0, ended(0, 3s, code(97)));
  EXPECT_THAT(driver.commands(), IsEmpty());
}

TEST(Round, ReportsOfOthersAboutAWorkerChangeNothing) {
  RoundDriver driver;
  driver.exit(0, ended(3, 2s, code(7)));  // of node 1
  driver.exit(0, ended(9, 2s, code(7)));  // of nobody
  driver.exit(0, ended(-1, 2s, code(7)));
  WorkerEnded old = exited(ended(0, 2s, code(7)));
  old.round = 5;
  driver.round.note_worker_ended(0, old, kBegin + 2s);
  EXPECT_FALSE(driver.round.is_ending());
  driver.exit(0, ended(0, 2s, code(7)));
  driver.end(0, {ended(0, 2s, code(7)), ended(2, 1s, code(8))});
  driver.end(1, all_stopped({2, 3}));
  EXPECT_EQ(driver.result().exit_code, 7);
}

TEST(Round, TheOthersFollowAWorkerThatLeftAfterACheckpointWithinTheGrace) {
  RoundDriver driver;
  driver.exit(0, with_page(ended(0, 2s, code(143)), Phase::training));
  const std::vector<NodeCommand> commands = driver.commands();
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_EQ(std::get<AnnounceStop>(commands.front()).line,
            "rank 0 (pid 100) was asked to stop and has left after a checkpoint; waiting 30s for "
            "the others.");
  EXPECT_EQ(driver.round.deadline(), kBegin + 32s);
  driver.round.note_time(kBegin + 31s);
  EXPECT_FALSE(driver.round.is_ending());
  driver.round.note_time(kBegin + 32s);
  EXPECT_EQ(describe_end_round(driver.end_command(), 2, true),
            "3 workers did not follow within 30s; stopping 2 workers.");
  driver.end(0, {with_page(ended(0, 2s, code(143)), Phase::training), all_stopped({1}).front()});
  driver.end(1, all_stopped({2, 3}));
  const RoundResult result = driver.result();
  EXPECT_EQ(std::get<Failed>(result.outcome).root_cause, 0U);
  EXPECT_EQ(result.exit_code, 143);
}

TEST(Round, ARankThatHadLeftTheStoreMissedNobody) {
  for (const bool has_left : {false, true}) {
    RoundDriver driver(usual_config(), {2});
    driver.round.note_store_joins({0, 1});
    driver.exit(0, ended(0, 2s, code(0)));
    std::vector<WorkerSample> samples(2);
    samples[0].ended_well = true;
    for (const auto at : {3s, 4s, 5s}) {
      samples[1].is_in_store = !has_left || at == 3s;
      driver.round.note_samples(samples, kBegin + at);
    }
    for (const auto at : {5900ms, 6000ms}) {  // it was seen without a connection at 4 s
      RoundDriver copy = driver;
      copy.exit(0, ended(1, at, code(1)));
      copy.end(0, {ended(0, 2s, code(0)), ended(1, at, code(1))});
      const RoundResult result = copy.result();
      EXPECT_EQ(std::get<Failed>(result.outcome).root_cause, has_left && at == 6s ? 1U : 0U);
      EXPECT_EQ(result.exit_code, 1);
    }
  }
}

TEST(Round, ANodeThatDoesNotReportInTimeIsGivenUpAndOurOwnNever) {
  RoundDriver driver(usual_config(), {1, 1, 1});
  driver.exit(0, ended(0, 2s, code(7)));
  driver.end(2, all_stopped({2}));
  ASSERT_EQ(driver.round.deadline(), kBegin + 2s + 30s + Round::kGroupEndWait);
  (void)driver.round.take_actions();
  driver.round.note_time(*driver.round.deadline());
  const std::vector<Round::Action> commands = driver.round.take_actions();
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_EQ(std::get<Round::DeclareNodeLost>(commands.front()).node_rank, 1);
  EXPECT_FALSE(driver.round.deadline());
  driver.lose(1, 40s);
  EXPECT_FALSE(driver.round.is_over());
  driver.end(0, {ended(0, 2s, code(7))});
  EXPECT_TRUE(driver.round.is_over());
}

// Of one that is heard: a disk that is slow is not a node that is lost.
TEST(Round, ANodeWhoseWorkersAreGoneMayTakeLongerToReport) {
  RoundDriver driver(usual_config(), {1, 1, 1});
  driver.exit(0, ended(0, 2s, code(7)));
  driver.end(0, {ended(0, 2s, code(7))});
  driver.round.note_group_gone(1);
  const Round::Time deadline = driver.round.deadline().value();
  (void)driver.round.take_actions();
  driver.round.note_time(deadline);
  const std::vector<Round::Action> actions = driver.round.take_actions();
  ASSERT_THAT(actions, SizeIs(2));
  EXPECT_THAT(std::get<Round::Warn>(actions[0]).text, testing::StartsWith("node 1 (b) has ended"));
  EXPECT_EQ(std::get<Round::DeclareNodeLost>(actions[1]).node_rank, 2) << "its workers may live";
  driver.lose(2, 40s);
  ASSERT_EQ(driver.round.deadline(), deadline + Round::kLastLinesWait);
  RoundDriver late = driver;
  driver.end(1, all_stopped({1}));
  EXPECT_TRUE(driver.round.is_over());
  EXPECT_EQ(driver.result().exit_code, 7);
  late.round.note_time(deadline + Round::kLastLinesWait);
  const std::vector<Round::Action> then = late.round.take_actions();
  ASSERT_THAT(then, SizeIs(1));
  EXPECT_EQ(std::get<Round::DeclareNodeLost>(then.front()).node_rank, 1) << "for ever is too long";
  EXPECT_FALSE(late.round.deadline());
}

TEST(Round, AReportMayTakeAsLongAsAllThatANodeWaitsFor) {
  JobSpec spec;
  spec.grace = 30s;
  spec.hang_timeout = 5s;
  spec.keeps_survivors = true;
  const nanoseconds least = spec.grace + Escalation::kKillWait + OutputDrain::kLongest;
  const auto wait_of = [&](const std::function<void(RoundDriver&)>& end, nanoseconds& at) {
    Round::Config config = Round::make_config(spec);
    config.has_restarts = true;
    RoundDriver driver(config);
    end(driver);
    if (driver.hung_at > 0s) at = driver.hung_at;
    return driver.round.deadline().value() - kBegin - at;
  };
  nanoseconds at = 1s;
  EXPECT_GT(wait_of([](RoundDriver& driver) { driver.stop(SIGTERM); }, at), least);
  EXPECT_GT(wait_of([](RoundDriver& driver) { driver.exit(0, ended(0, 1s, code(7))); }, at),
            least + SurvivorWait::kLongest);
  EXPECT_GT(wait_of([](RoundDriver& driver) { driver.hang(1); }, at),
            least + kSpyWait + kPrintWait);
}

TEST(Round, NoHangIsLookedForWhileAWorkerOfAnyNodeHasADebugger) {
  std::vector<Round::Node> nodes = nodes_of({2, 2});
  nodes[1].has_debugger = true;
  RoundDriver driver(nodes);
  EXPECT_FALSE(driver.round.looks_for_hangs());
  driver.start_groups();
  driver.hold_up(1);
  EXPECT_FALSE(driver.round.is_ending());
}

TEST(Round, ANodeWithABrokenGpuIsPutLast) {
  RoundDriver driver;
  driver.exit(1, ended(2, 1s, code(7)));
  (void)driver.round.take_actions();
  driver.end(0, all_stopped({0, 1}));
  EXPECT_THAT(driver.round.take_actions(), IsEmpty());
  GroupEnded end = group_ended({ended(2, 1s, code(7)), all_stopped({3}).front()});
  end.gpu_error = "NVRM: Xid 79";
  driver.round.note_group_ended(1, end, kBegin + 60s);
  const std::vector<Round::Action> actions = driver.round.take_actions();
  ASSERT_THAT(actions, SizeIs(1));
  const auto* const last = std::get_if<Round::DeprioritizeNode>(&actions.front());
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->node_rank, 1);
  EXPECT_EQ(last->gpu_error, "NVRM: Xid 79");
}

TEST(Round, AHangLeavesTimeForStacksAndKeptWorkersTimeToSettle) {
  RoundDriver hung;
  hung.hang(1);
  const EndRound command = hung.end_command();
  EXPECT_EQ(command.reason, EndReason::hang);
  EXPECT_EQ(hung.round.deadline(), kBegin + hung.hung_at + 30s + Round::kGroupEndWait + 5s);
  Round::Config config = usual_config();
  config.keeps_survivors = true;
  config.has_restarts = true;
  RoundDriver waits(config);
  waits.exit(0, ended(0, 2s, code(7)));
  EXPECT_TRUE(waits.end_command().keeps_survivors);
  EXPECT_EQ(waits.round.deadline(), kBegin + 2s + 30s + Round::kGroupEndWait + 5s);
}

TEST(Round, NobodyIsKeptWhereNoRoundFollows) {
  Round::Config config = usual_config();
  config.keeps_survivors = true;
  RoundDriver last(config);
  last.exit(0, ended(0, 2s, code(7)));
  EXPECT_FALSE(last.end_command().keeps_survivors);
  config.has_restarts = true;
  RoundDriver final_code(config);
  final_code.exit(0, ended(0, 2s, code(exit_code::kNoRestart)));
  EXPECT_FALSE(final_code.end_command().keeps_survivors);
  config.has_restarts = false;
  config.lost_nodes_are_free = true;
  RoundDriver lost(config);
  lost.lose(1, 2s);
  EXPECT_TRUE(lost.end_command().keeps_survivors);
}

// --- The user's signals.

TEST(Round, TheUsersSignalIsPassedOnAndSigusr1IsTheWishForACheckpoint) {
  RoundDriver driver;
  driver.stop(SIGINT, 1s, 1);
  EndRound command = driver.end_command();
  EXPECT_EQ(command.signal, SIGINT);
  EXPECT_EQ(command.stop_reason(), StopReason::preempt);
  EXPECT_EQ(describe_end_round(command, 2, true),
            "SIGINT at node 1 (b): stopping 2 workers, they have 30s. A second SIGINT or SIGTERM "
            "kills them now.");
  RoundDriver announced;
  announced.stop(SIGUSR1);
  command = announced.end_command();
  EXPECT_EQ(command.signal, SIGTERM);
  EXPECT_EQ(command.what, "SIGUSR1");
}

TEST(Round, TheSecondSignalOfOneUserKillsNow) {
  RoundDriver driver;
  driver.stop(SIGTERM, 1s);
  driver.stop(SIGTERM, 1s, 1);       // the other node's scheduler
  driver.stop(SIGTERM, 1s + 100ms);  // delivered twice
  EXPECT_THAT(driver.commands(), SizeIs(1));
  driver.stop(SIGTERM, 1s + 101ms);
  EXPECT_EQ(driver.end_command().signal, SIGKILL);
  driver.stop(SIGTERM, 9s);
  EXPECT_THAT(driver.commands(), IsEmpty());
}

TEST(Round, AnAnnouncementIsNoFirstSignal) {
  RoundDriver driver;
  driver.stop(SIGUSR1, 1s);
  driver.stop(SIGTERM, 5s);
  EXPECT_THAT(driver.commands(), SizeIs(1));
  driver.stop(SIGTERM, 6s);
  EXPECT_EQ(driver.end_command().signal, SIGKILL);
}

TEST(Round, AnUninterruptibleSleepBeyondItsLimitIsItsLastRound) {
  Round::Config config;
  config.watch.uninterruptible_timeout = 5s;
  Round round(config, {{"a", "", 1}}, kBegin);
  round.note_group_started(0, GroupStarted());
  WorkerSample sample;
  sample.activity = Activity{'D', "kernel_clone"};
  round.note_samples({sample}, kBegin + 1s);
  round.note_samples({sample}, kBegin + 6s);
  ASSERT_TRUE(round.is_ending());
  round.note_group_ended(0, group_ended({stopped(ended(0, 7s, killed_by(SIGTERM)))}), kBegin + 7s);
  const RoundResult result = round.conclude(kBegin + 7s, true);
  EXPECT_TRUE(result.is_final);
  EXPECT_EQ(result.exit_code, exit_code::kTimeout);
  EXPECT_THAT(result.hang, HasSubstr("in kernel_clone"));
}

// --- What is left for the next round.

TEST(Round, SurvivorsAndLeftoversOfALostNodeAreGoneWithIt) {
  RoundDriver driver(usual_config(), {1, 1});
  driver.exit(0, ended(0, 1s, code(7)));
  GroupEnded other;
  other.survivors = 1;
  other.survivor_step = 8;
  other.unkilled = {"pid 9 (x, state D)"};
  driver.round.note_group_ended(1, other, kBegin + 2s);
  driver.lose(1, 3s);
  driver.end(0, {ended(0, 1s, code(7))});
  EXPECT_EQ(driver.round.later_lost_node()->node_rank, 1);
  EXPECT_TRUE(driver.round.has_lost_node());
  const RoundResult result = driver.result();
  EXPECT_EQ(result.survivors, 0);
  EXPECT_TRUE(result.unkilled.empty());
  EXPECT_EQ(result.exit_code, 7);
}

TEST(Round, LeftoversOfOtherNodesAreNamedWithTheirNode) {
  RoundDriver driver(usual_config(), {1, 1});
  driver.exit(0, ended(0, 1s, code(7)));
  GroupEnded end = group_ended({ended(0, 1s, code(7))});
  end.unkilled = {"pid 8 (x, state D)"};
  driver.round.note_group_ended(0, end, kBegin + 2s);
  end = group_ended(all_stopped({1}));
  end.unkilled = {"pid 9 (x, state D)"};
  driver.round.note_group_ended(1, end, kBegin + 2s);
  const RoundResult result = driver.result();
  EXPECT_FALSE(result.unkilled.empty());
  EXPECT_THAT(result.unkilled, ElementsAre("pid 8 (x, state D)", "node 1 (b): pid 9 (x, state D)"));
}

}  // namespace
}  // namespace ddp::launcher
