// A worker that lives and does nothing is named with the phase it is in; the one that others wait
// for, not those that wait. Rows W4, W6 and W7 of the list of faults.
#include <signal.h>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;

class Hang : public ProcessTest {};

TEST_F(Hang, W6_AWorkerWithoutAStepIsNamedWithItsPhaseAndEndsTheJobBy124) {
  const auto job = launch_fakes(
      2, "on 0 [ progress 8 ] on 1 [ progress 7 ] catch USR2 hold", {"--hang-timeout", "2s"});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_GE(job->lived(), 2s);
  EXPECT_TRUE(job->sees("made no step for "));
  EXPECT_TRUE(job->sees("phase training, step 7; it is in state S"));
  EXPECT_TRUE(job->sees("rank       : 1 (local_rank: 1)"));
  // All ranks' phases and steps, and their stacks, come before the kill.
  EXPECT_TRUE(job->sees("phase training, step 8"));
  EXPECT_TRUE(job->sees("[0:0] caught USR2") && job->sees("[0:1] caught USR2"));
}

TEST_F(Hang, W6_AForeignProgramHangsOnlyWhenTheUserSaysSo) {
  const auto patient = launch_fakes(2, "on 0 [ sleep 3.5 print late ]");
  EXPECT_EQ(patient->wait(), 0);
  const auto job = launch_fakes(2, "hold", {"--hang-timeout", "2s"});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_TRUE(job->sees("neither ran nor printed for "));
}

TEST_F(Hang, W7_AStoppedWorkerIsNamedWithin10sAndNotThoseThatWait) {
  const auto job = launch_fakes(2, "progress 3 on 1 [ pid raise STOP ] print ready hold");
  ASSERT_TRUE(job->sees("pid "));
  const int stopped = job->number_after("pid ");
  const std::string who = "rank 1 (pid " + std::to_string(stopped) + ")";
  EXPECT_TRUE(job->sees(who + " is stopped (state T)", 10s));
  EXPECT_EQ(job->err().find("rank 0 (pid"), std::string::npos);
  ::kill(stopped, SIGCONT);
  EXPECT_TRUE(job->sees("[0:1] ready"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(Hang, W7_AStoppedWorkerIsTheRootCauseOfAHang) {
  const auto job = launch_fakes(
      2, "on 0 [ progress 3 ] on 1 [ progress 4 raise STOP ] hold", {"--hang-timeout", "2s"});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_TRUE(job->sees("rank       : 1 (local_rank: 1)"));
  EXPECT_TRUE(job->sees("it is stopped (state T)"));
}

TEST_F(Hang, W7_AStoppedWorkerIsTheRootCauseWhenItsPeerGivesUp) {
  const auto job = launch_fakes(2, "on 0 [ pid ] on 1 [ raise STOP ] hold");
  ASSERT_TRUE(job->sees("is stopped (state T)", 10s));
  ::kill(job->number_after("pid "), SIGKILL);  // the peer that waits in vain
  EXPECT_EQ(job->wait(), 137);
  EXPECT_TRUE(job->sees("rank       : 1 (local_rank: 1)"));
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
