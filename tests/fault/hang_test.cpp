// A worker that lives and does nothing is named with the phase it is in; the one that others wait
// for, not those that wait. Rows W4, W6 and W7 of CASES.md.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/support/process_test.h"
#include "tests/support/store_client.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;

class Hang : public ProcessTest {
 protected:
  /// Two workers that have both joined the store. Rank 0 leaves by 0 on SIGUSR1, rank 1 fails.
  void start_pair(const std::string& before_it_fails = "") {
    const std::string verbs =
        "on 0 [ print ready wait USR1 exit 0 ] on 1 [ print ready wait USR1 " + before_it_fails +
        " exit 3 ]";
    job_ = launch_fakes(2, verbs, {"--verbose", "--no-python"});
    ASSERT_TRUE(job_->sees("[0:0] ready") && job_->sees("[0:1] ready"));
    const int port = job_->number_after("endpoint: 127.0.0.1:");
    for (const std::string rank : {"0", "1"}) {
      pids_.push_back(job_->number_after("rank " + rank + ": pid "));
      clients_.emplace_back(port, true, static_cast<std::uint32_t>(pids_.back()));
    }
  }
  void expect_blamed(int rank) const {
    EXPECT_EQ(count(job_->err(), "Root Cause (first observed failure):"), 1U) << job_->err();
    const std::string named = "  rank      : " + std::to_string(rank) + " ";
    EXPECT_EQ(count(job_->err(), named), 1U) << job_->err();
  }

  std::unique_ptr<Running> job_;
  std::vector<pid_t> pids_;
  std::vector<StoreClient> clients_;
};

TEST_F(Hang, W4_ARankThatLeavesIsTheRootCauseWhenAnotherWaitsForNobodysKey) {
  start_pair();
  clients_[1].send("\x06" + u64(1) + text("nobody sets it"));  // WAIT
  const auto begin = std::chrono::steady_clock::now();
  send_signal(pids_[0], SIGUSR1);
  EXPECT_EQ(job_->wait(), 124);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 10s);
  EXPECT_LT(took, 10s + 1s + 1s);  // a look every second, and a second for the rest
  expect_blamed(0);
  EXPECT_TRUE(job_->sees("left with exit code 0"));
}

TEST_F(Hang, W4_ARankThatLeavesIsTheRootCauseWhenAnotherFailsLater) {
  start_pair();
  send_signal(pids_[0], SIGUSR1);
  ASSERT_TRUE(eventually([&] { return state_of(pids_[0]).empty(); }, kTestTimeout));
  send_signal(pids_[1], SIGUSR1);
  EXPECT_EQ(job_->wait(), 3);
  expect_blamed(0);
}

TEST_F(Hang, W4_ARankThatFailsAfterItHasLeftTheStoreIsTheRootCause) {
  start_pair("sleep 4");
  send_signal(pids_[0], SIGUSR1);
  ASSERT_TRUE(eventually([&] { return state_of(pids_[0]).empty(); }, kTestTimeout));
  clients_.pop_back();
  send_signal(pids_[1], SIGUSR1);
  EXPECT_EQ(job_->wait(), 3);
  expect_blamed(1);
}

// A parent in vfork(2) sleeps like one that waits for a dead disk, but for a fatal signal.
TEST_F(Hang, W6_AnUninterruptibleSleepBeyondItsLimitEndsTheJobWithoutARestart) {
  const auto job =
      start(Command{.arguments = {DDP_LAUNCH,
                                  "--max-restarts=3",
                                  "--nproc-per-node=2",
                                  DDP_FAKE_WORKER,
                                  "on",
                                  "1",
                                  "[",
                                  "disk",
                                  "]",
                                  "hold"},
                    .environment = {{"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "2"}}});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_EQ(count(job->err(), "  rank      : 1 "), 1U) << job->err();
  EXPECT_THAT(job->err(),
              testing::ContainsRegex("what      : is in an uninterruptible sleep \\(state D\\) in "
                                     "[a-z_]+, for [23] s"));
  EXPECT_THAT(job->err(), testing::HasSubstr("uninterruptible sleep would hold a new one, too."));
  EXPECT_THAT(job->err(), testing::Not(testing::HasSubstr("round 1"))) << "no restart";
}

TEST_F(Hang, W6_AWorkerWithoutAStepIsNamedWithItsPhaseAndEndsTheJobBy124) {
  const auto job = launch_fakes(
      2, "on 0 [ progress 8 ] on 1 [ progress 7 ] catch USR2 hold", {"--hang-timeout", "2s"});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_GE(job->lived(), 2s);
  EXPECT_TRUE(job->sees("made no step for "));
  EXPECT_TRUE(job->sees("phase training, step 7; it is in state S"));
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
  // All ranks' phases and steps, and their stacks, come before the kill.
  EXPECT_TRUE(job->sees("phase training, step 8"));
  EXPECT_TRUE(job->sees("[0:0] caught USR2") && job->sees("[0:1] caught USR2"));
}

TEST_F(Hang, W6_ARankOutsideOfACollectiveThatOthersAreInIsToBlame) {
  const auto job = launch_fakes(
      3, "progress 7 on 0 [ collective ] on 2 [ collective ] hold", {"--hang-timeout", "2s"});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
  EXPECT_TRUE(job->sees("outside of the collective that others are in"));
}

TEST_F(Hang, W6_APythonProgramWithAPageIsJudgedByItWhateverItComputes) {
  const std::string script =
      write_file("train.py",
                 "import os, sys\n"
                 "sys.path.insert(0, '" DDP_PAGE_DIR
                 "')\n"
                 "from ddp_progress import progress\n"
                 "progress.step(6 if os.environ['RANK'] == '1' else 7, 0.25)\n"
                 "while True: pass\n");
  const auto job =
      launch({"--nproc-per-node", "2", "--hang-timeout", "2s", "--grace", "2s", script});
  EXPECT_EQ(job->wait(), 124);
  // Its last step may have come a moment after that of the one that was found.
  EXPECT_TRUE(job->sees("made no step for "));
  EXPECT_TRUE(job->sees(" s, phase training, step 6; it is in state R"));
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
}

TEST_F(Hang, W6_AnExternalProgramHangsOnlyWhenTheUserSaysSo) {
  const auto patient = launch_fakes(2, "on 0 [ sleep 3.5 print late ]");
  EXPECT_EQ(patient->wait(), 0);
  const auto job = launch_fakes(2, "hold", {"--hang-timeout", "2s"});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_TRUE(job->sees("neither ran nor printed for "));
}

TEST_F(Hang, W7_AStoppedWorkerIsNamedWithin10sAndNotThoseThatWait) {
  const auto job = launch_fakes(2, "progress 3 on 1 [ pid raise STOP ] print ready hold");
  const int stopped = job->number_after("[0:1] pid ");
  const std::string who = "rank 1 (pid " + std::to_string(stopped) + ")";
  EXPECT_TRUE(job->sees(who + " is stopped (state T)", 10s));
  EXPECT_EQ(job->err().find("rank 0 (pid"), std::string::npos);
  send_signal(stopped, SIGCONT);
  EXPECT_TRUE(job->sees("[0:1] ready"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(Hang, W7_AStoppedWorkerIsTheRootCauseOfAHang) {
  const auto job = launch_fakes(
      2, "on 0 [ progress 3 ] on 1 [ progress 4 raise STOP ] hold", {"--hang-timeout", "2s"});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
  EXPECT_TRUE(job->sees("it is stopped (state T)"));
}

TEST_F(Hang, W7_AStoppedWorkerIsTheRootCauseWhenItsPeerGivesUp) {
  const auto job = launch_fakes(2, "on 1 [ raise STOP hold ] pid wait USR1 exit 97");
  ASSERT_TRUE(job->sees("is stopped (state T)", 10s));
  send_signal(job->number_after("[0:0] pid "), SIGUSR1);  // the peer gives up
  EXPECT_EQ(job->wait(), 97);
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
  EXPECT_TRUE(job->sees("was stopped (SIGSTOP) while its peers waited and failed"));
}

TEST_F(Hang, W7_AStoppedWorkerIsTheRootCauseOfATimeOutOfLessThan3s) {
  const auto job = launch_fakes(2, "on 1 [ raise STOP hold ] sleep 2 exit 124");
  EXPECT_EQ(job->wait(), 124);
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
  EXPECT_TRUE(job->sees("was stopped (SIGSTOP) while its peers waited and failed"));
}

TEST_F(Hang, ARoundThatHangsIsRestartedToo) {
  const auto job = launch_fakes(
      2, "round 0 [ progress 1 hold ] print done", {"--hang-timeout", "2s", "--max-restarts", "1"});
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(job->sees("[0:1] done"));
}

}  // namespace
}  // namespace ddp::test
