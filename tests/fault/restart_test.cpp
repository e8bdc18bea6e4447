// Rounds: a failed one is followed by another while restarts are left, and nothing of the old one
// lives beside it. Row W13 of CASES.md, and row L6 between two rounds.
#include <signal.h>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;

class Restart : public ProcessTest {
 protected:
  std::unique_ptr<Running> launch_with(int max_restarts, const std::string& verbs) {
    return launch_fakes(2, verbs, {"--max-restarts", std::to_string(max_restarts)});
  }
};

TEST_F(Restart, AFailedRoundIsFollowedByAnother) {
  const auto job = launch_with(3, "round 0 [ on 1 [ exit 7 ] hold ] print done");
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(job->sees("[0:0] done") && job->sees("[0:1] done"));
  EXPECT_TRUE(job->sees("round 0 failed after"));
  EXPECT_TRUE(job->sees("rank 1 (pid "));
  EXPECT_TRUE(job->sees("round 1 starts now, 2 restarts are left."));
  EXPECT_EQ(job->err().find("Root Cause"), std::string::npos);
}

TEST_F(Restart, WorkersAreToldTheirRoundAndKeepThePort) {
  const auto job =
      launch_with(2, "round 0 [ on 0 [ environment exit 1 ] hold ] on 0 [ environment ]");
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(job->sees("[0:0] TORCHELASTIC_RESTART_COUNT=0\n"));
  EXPECT_TRUE(job->sees("[0:0] TORCHELASTIC_RESTART_COUNT=1\n"));
  EXPECT_EQ(count(job->out(), "[0:0] TORCHELASTIC_MAX_RESTARTS=2\n"), 2U);
  EXPECT_TRUE(job->sees("[0:0] DDP_ROUND=1\n"));
  const std::string port = "[0:0] MASTER_PORT=" + std::to_string(job->number_after("MASTER_PORT="));
  EXPECT_EQ(count(job->out(), port + "\n"), 2U);
}

TEST_F(Restart, TheLastFailureIsTheJobsAndEarlierRoundsAreALineEach) {
  const auto job = launch_with(1, "round 0 [ on 1 [ exit 7 ] hold ] on 0 [ exit 9 ] hold");
  EXPECT_EQ(job->wait(), 9);
  EXPECT_TRUE(job->sees("the one restart is used up"));
  EXPECT_TRUE(job->sees("rank      : 0 (local_rank: 0)"));
  EXPECT_TRUE(job->sees("Earlier: round 0 failed after"));
}

TEST_F(Restart, WorkersOfARoundAreGoneBeforeTheNextStarts) {
  const auto job = launch_with(1,
                               "round 0 [ lose [ ignore TERM hold ] spawn [ ignore TERM hold ] "
                               "on 1 [ print ready exit 7 ] ignore TERM hold ] "
                               "on 0 [ print second ] on 1 [ print other ] hold");
  ASSERT_TRUE(job->sees("second") && job->sees("other"));
  EXPECT_EQ(alive().size(), 4U) << testing::PrintToString(alive());  // agent, guard, two workers
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(2s)) << testing::PrintToString(alive());
}

TEST_F(Restart, AProgramThatIsGoneInALaterRoundIsTheCause) {
  const std::filesystem::path program = scratch() / "gone";
  std::filesystem::copy_file(DDP_FAKE_WORKER, program);
  const auto job = launch(
      {"--max-restarts", "3", program.string(), "print", "ready", "wait", "USR1", "exit", "1"});
  ASSERT_TRUE(job->sees("ready"));
  std::filesystem::remove(program);
  for (const std::string& process : alive()) {
    if (process.find("ddp-launch") == std::string::npos) send_signal(std::stoi(process), SIGUSR1);
  }
  EXPECT_EQ(job->wait(), 127);
  EXPECT_TRUE(job->sees("cannot start rank 0"));
  EXPECT_TRUE(job->sees("earlier, round 0 failed after"));
  EXPECT_EQ(job->err().find("Root Cause"), std::string::npos);
}

// 200 messages of 1 KiB are more than its pipe holds.
TEST_F(Restart, AStoppedGuardHoldsNobodyUp) {
  const auto job = launch_fakes(2,
                                "round 0 [ on 0 [ print ready ] wait USR1 exit 1 ] "
                                "round 50 [ print last hold ] exit 1",
                                {"--max-restarts", "50", "--died-within", "0s"});
  ASSERT_TRUE(job->sees("ready"));
  send_signal(find_guard(), SIGSTOP);
  for (const std::string& process : alive()) {
    if (process.find("ddp-launch") == std::string::npos) send_signal(std::stoi(process), SIGUSR1);
  }
  EXPECT_TRUE(job->sees("last"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(Restart, SomeCodesEndTheJob) {
  for (const int code : {2, 93, 126, 127, 203}) {
    const auto job = launch_with(5, "on 1 [ exit " + std::to_string(code) + " ] hold");
    EXPECT_EQ(job->wait(), code);
    EXPECT_TRUE(job->sees("exit code " + std::to_string(code) + " is never restarted"));
  }
}

TEST_F(Restart, W13_ThreeRoundsWithoutANewerCheckpointEndBy93) {
  const auto job = launch_with(
      9,
      "progress 5 round 0 [ checkpoint 4 on 1 [ exit 7 ] hold ] checkpoint 4 on 1 [ exit 7 ] hold");
  EXPECT_EQ(job->wait(), 93);
  EXPECT_TRUE(job->sees("Exit code 93: 3 rounds without a newer checkpoint."));
  EXPECT_EQ(count(job->err(), "Earlier: "), 3U);
}

TEST_F(Restart, W13_TheSecondShortRoundIsFollowedByAPause) {
  const auto job = launch_with(2, "on 1 [ exit 7 ] hold");
  EXPECT_TRUE(job->sees("round 1 starts now"));
  EXPECT_TRUE(job->sees("round 2 starts in 1s"));
  EXPECT_EQ(job->wait(), 7);
  EXPECT_GE(job->lived(), 1s);
}

TEST_F(Restart, AStopBetweenTwoRoundsEndsTheJobAtOnce) {
  const auto job = launch_with(5, "on 1 [ exit 7 ] hold");
  ASSERT_TRUE(job->sees("round 3 starts in 2s"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(1500ms), 143);
  EXPECT_TRUE(job->sees("stopped by SIGTERM; exit code 143"));
}

TEST_F(Restart, AStopWhileAFailedRoundIsEndedLeavesNoFurtherRound) {
  const auto job = launch_with(5, "catch TERM on 1 [ pid wait USR1 exit 7 ] print ready hold");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("pid "));
  send_signal(job->number_after("[0:1] pid "), SIGUSR1);
  ASSERT_TRUE(job->sees("[0:0] caught TERM"));  // the teardown is under way
  job->signal(SIGINT);
  EXPECT_EQ(job->wait(), 130);
  EXPECT_TRUE(job->sees("stopped by SIGINT; exit code 130"));
  EXPECT_TRUE(job->sees("earlier, round 0 failed after"));
  EXPECT_EQ(job->err().find("starts now"), std::string::npos);
  EXPECT_EQ(count(job->out(), "[0:0] ready"), 1U);
}

TEST_F(Restart, AStopByTheUserIsNoFailure) {
  const auto job = launch_with(5, "print ready hold");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_EQ(job->err().find("round 1"), std::string::npos);
}

TEST_F(Restart, AKilledLauncherBetweenTwoRoundsLeavesNothing) {
  const auto job = launch_with(5, "lose [ hold ] on 1 [ exit 7 ] hold");
  ASSERT_TRUE(job->sees("round 3 starts in 2s"));
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(2s)) << testing::PrintToString(alive());
}

TEST_F(Restart, EachRoundHasItsOwnLogFiles) {
  const auto job = launch_fakes(1,
                                "round 0 [ print first exit 7 ] print second",
                                {"--max-restarts", "1", "--output", (scratch() / "runs").string()});
  EXPECT_EQ(job->wait(), 0) << job->err();
  for (const auto& [round, text] :
       {std::pair("round-0", "first\n"), std::pair("round-1", "second\n")}) {
    const auto file = scratch() / "runs" / "fake_worker" / "logs" / round / "rank-0.out";
    EXPECT_EQ(read_all(file), text) << file;
  }
}

TEST_F(Restart, LogsOfTheFirstAndLast20RoundsAreKept) {
  const auto job = launch_fakes(
      1,
      "print on round 44 [ print last ] exit 7",
      {"--max-restarts", "44", "--died-within", "0s", "--output", (scratch() / "runs").string()});
  EXPECT_EQ(job->wait(60s), 7) << job->err();
  for (int round = 0; round <= 44; ++round) {
    const auto logs = scratch() / "runs/fake_worker/logs" / ("round-" + std::to_string(round));
    EXPECT_EQ(std::filesystem::exists(logs / "rank-0.out"), round < 20 || round > 24) << round;
  }
  EXPECT_NE(job->err().find("first and the last 20 rounds are kept"), std::string::npos);
}

TEST_F(Restart, FirstAndLast20RoundsKeepLogsInTorchrunsLayout) {
  const auto job = launch_fakes(1,
                                "print on exit 7",
                                {"--max-restarts",
                                 "41",
                                 "--died-within",
                                 "0s",
                                 "-t",
                                 "3",
                                 "--log-dir",
                                 (scratch() / "logs").string()});
  EXPECT_EQ(job->wait(60s), 7) << job->err();
  const auto above = std::filesystem::directory_iterator(scratch() / "logs")->path();
  for (int round = 0; round <= 41; ++round) {
    const auto logs = above / ("attempt_" + std::to_string(round));
    EXPECT_EQ(std::filesystem::exists(logs / "0/stdout.log"), round < 20 || round > 21) << round;
  }
}

// The agent neither grows nor loses descriptors: invariant I8 of tests/soak/soak_test.cpp.
TEST_F(Restart, AHundredRoundsCostNothing) {
  const auto job =
      launch_fakes(1,
                   "round 1 [ print first sleep 1 ] round 100 [ print last hold ] exit 7",
                   {"--max-restarts", "100", "--died-within", "0s"});
  ASSERT_TRUE(job->sees("[0:0] first"));
  const std::size_t at_first = count_descriptors(job->pid());
  ASSERT_TRUE(job->sees("last", 60s));
  EXPECT_EQ(count_descriptors(job->pid()), at_first);
  if (!kInstrumented) {
    EXPECT_LT(status_number(job->pid(), "VmRSS"), 10U << 10);
  }
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

}  // namespace
}  // namespace ddp::test
