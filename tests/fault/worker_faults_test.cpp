// A worker dies, hangs or leaves something behind. Rows W of CASES.md.
#include <signal.h>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;

class WorkerFaults : public ProcessTest {};

TEST_F(WorkerFaults, W1_ASegmentationFaultIsTheCodeOfTheJob) {
  const auto job = launch_fakes(2, "on 1 [ raise SEGV ] hold");
  EXPECT_EQ(job->wait(), 128 + SIGSEGV);
  EXPECT_TRUE(job->sees("SIGSEGV"));
}

TEST_F(WorkerFaults, W2_AKilledWorkerEndsTheJobWithin1sAndIsNamed) {
  const auto job = launch_fakes(2, "on 1 [ pid ] on 0 [ print ready ] hold");
  ASSERT_TRUE(job->sees("pid ") && job->sees("ready"));
  const int victim = job->number_after("[0:1] pid ");
  const auto begin = std::chrono::steady_clock::now();
  send_signal(victim, SIGKILL);
  EXPECT_EQ(job->wait(), 137);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  EXPECT_TRUE(job->sees("Root Cause (first observed failure):"));
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
  EXPECT_TRUE(job->sees("signal SIGKILL (9) received by pid " + std::to_string(victim)));
  EXPECT_TRUE(job->sees("\n  rank 0 (pid "));  // the victim, in one line
}

TEST_F(WorkerFaults, W3_TheCodeOfTheWorkerIsKept) {
  for (const int code : {7, 138, 255}) {
    const auto job = launch_fakes(2, "on 0 [ exit " + std::to_string(code) + " ] hold");
    EXPECT_EQ(job->wait(), code);
    EXPECT_TRUE(job->sees("exit code " + std::to_string(code)));
    EXPECT_EQ(job->err().find("SIGUSR1"), std::string::npos);  // 138 is a code, not a signal
  }
}

TEST_F(WorkerFaults, W4_AWorkerWithAPageThatLeavesTooEarlyHasFailed) {
  const auto job = launch_fakes(2, "progress 5 on 0 [ exit 0 ] hold");
  EXPECT_EQ(job->wait(), 125);
  EXPECT_TRUE(job->sees("left with exit code 0 in phase training"));
  EXPECT_TRUE(job->sees("step 5"));
}

TEST_F(WorkerFaults, W4_AnExternalWorkerMayLeaveEarly) {
  const auto job = launch_fakes(2, "on 0 [ exit 0 ] on 1 [ sleep 0.2 print late ]");
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(job->sees("late"));
}

TEST_F(WorkerFaults, W4_AWorkerThatFinishedHasNotFailed) {
  EXPECT_EQ(launch_fakes(2, "progress 5 finish exit 0")->wait(), 0);
}

TEST_F(WorkerFaults, W8_AWorkerThatIgnoresSigtermIsKilledAfterTheGrace) {
  const auto job =
      launch_fakes(2, "on 0 [ ignore TERM print deaf hold ] on 1 [ pid wait USR1 exit 3 ]");
  ASSERT_TRUE(job->sees("deaf"));
  const int failing = job->number_after("[0:1] pid ");
  const auto begin = std::chrono::steady_clock::now();
  send_signal(failing, SIGUSR1);
  EXPECT_EQ(job->wait(), 3);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 2s);
  EXPECT_LT(took, 2500ms + 500ms);
  EXPECT_TRUE(job->sees("\n  rank 0 (pid "));
}

TEST_F(WorkerFaults, W9_AStoppedWorkerIsContinuedAtTeardown) {
  const auto job = launch_fakes(2, "on 0 [ pid raise STOP hold ] on 1 [ pid wait USR1 exit 3 ]");
  const int stopped = job->number_after("[0:0] pid ");
  const int failing = job->number_after("[0:1] pid ");
  ASSERT_TRUE(eventually([&] { return state_of(stopped) == "T"; }, kTestTimeout));
  const auto begin = std::chrono::steady_clock::now();
  send_signal(failing, SIGUSR1);
  EXPECT_EQ(job->wait(), 3);
  // It takes SIGTERM at once after SIGCONT: no grace is needed.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
}

TEST_F(WorkerFaults, W11_GrandchildrenAndDaemonsDoNotOutliveTheJob) {
  const auto job = launch_fakes(2,
                                "spawn [ hold ] lose [ hold ] lose [ session ignore TERM print "
                                "lost hold ] on 1 [ pid wait USR1 exit 4 ] hold");
  ASSERT_TRUE(job->sees("[0:0] lost") && job->sees("[0:1] lost"));
  send_signal(job->number_after("[0:1] pid "), SIGUSR1);
  EXPECT_EQ(job->wait(), 4);
  EXPECT_TRUE(alive().empty()) << testing::PrintToString(alive());
}

TEST_F(WorkerFaults, W11_ADaemonDoesNotOutliveAJobThatEndsWell) {
  const auto job = launch_fakes(1, "lose [ print lost hold ] sleep 0.2");
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(alive().empty()) << testing::PrintToString(alive());
}

TEST_F(WorkerFaults, W11_AdoptedOrphansAreReapedWhileTheJobRuns) {
  const auto job = launch_fakes(1, "lose [ pid ] print on hold");
  ASSERT_TRUE(job->sees("on\n"));
  const int orphan = job->number_after("[0:0] pid ");
  EXPECT_TRUE(eventually([&] { return state_of(orphan).empty(); }, kTestTimeout))
      << state_of(orphan);
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(WorkerFaults, W14_TwoFailuresGiveOneRootCause) {
  const auto job = launch_fakes(2, "exit 9");
  EXPECT_EQ(job->wait(), 9);
  EXPECT_LT(job->lived(), allowed(1s));
  EXPECT_EQ(count(job->err(), "Root Cause (first observed failure):"), 1U);
  EXPECT_TRUE(job->sees("Failures that followed:"));
}

TEST_F(WorkerFaults, W15_AFailureAfterTheTeardownIsAVictim) {
  const auto job = launch_fakes(2,
                                "on 0 [ print ready wait TERM error late-error exit 11 ] "
                                "on 1 [ pid wait USR1 exit 5 ]");
  ASSERT_TRUE(job->sees("ready"));
  send_signal(job->number_after("[0:1] pid "), SIGUSR1);
  EXPECT_EQ(job->wait(), 5);
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
}

TEST_F(WorkerFaults, ALostPeerIsAVictimOfAnotherFailure) {
  const auto job =
      launch_fakes(2, "on 0 [ pid wait USR1 exit 97 ] on 1 [ print ready wait TERM exit 5 ]");
  ASSERT_TRUE(job->sees("ready"));
  send_signal(job->number_after("[0:0] pid "), SIGUSR1);
  EXPECT_EQ(job->wait(), 5);
  EXPECT_TRUE(job->sees("exit code 97"));
}

TEST_F(WorkerFaults, AWorkerAskedToStopBySomebodyElseStopsTheJobAfterACheckpoint) {
  const auto job = launch_fakes(
      2, "progress 5 on 1 [ pid wait TERM exit 143 ] print ready wait USR1 reason exit 143");
  ASSERT_TRUE(job->sees("[0:0] ready"));
  send_signal(job->number_after("[0:1] pid "), SIGTERM);
  ASSERT_TRUE(job->sees("was asked to stop and has left after a checkpoint"));
  // Rank 0 gets no signal: it has agreed already. The test stands for its last step.
  for (const std::string& process : alive()) {
    if (process.find("fake_worker") != std::string::npos &&
        process.find("ddp-launch") == std::string::npos)
      send_signal(std::atoi(process.c_str()), SIGUSR1);
  }
  EXPECT_EQ(job->wait(), 143);
  EXPECT_TRUE(job->sees("[0:0] reason 1"));  // preempt
  EXPECT_TRUE(job->sees("stopped after a checkpoint, asked for at rank 1"));
  EXPECT_EQ(job->err().find("Root Cause"), std::string::npos);
}

TEST_F(WorkerFaults, AFailureAfterOneHasLeftIsTheRootCause) {
  const auto job =
      launch_fakes(3,
                   "progress 5 on 1 [ exit 143 ] on 2 [ print ready wait USR1 exit 5 ] print ready "
                   "wait TERM exit 143");
  ASSERT_TRUE(job->sees("has left after a checkpoint") && job->sees("[0:2] ready") &&
              job->sees("[0:0] ready"));
  for (const std::string& process : alive()) {
    if (process.find("fake_worker") != std::string::npos &&
        process.find("ddp-launch") == std::string::npos)
      send_signal(std::atoi(process.c_str()), SIGUSR1);
  }
  EXPECT_EQ(job->wait(), 5);
  EXPECT_TRUE(job->sees("rank      : 2 (local_rank: 2)"));
}

TEST_F(WorkerFaults, ARankThatDoesNotFollowALeaverIsStopped) {
  const auto job = launch_fakes(2, "progress 5 on 1 [ exit 143 ] hold");
  EXPECT_EQ(job->wait(), 143);
  EXPECT_TRUE(job->sees("1 worker did not follow within 2s"));
  EXPECT_TRUE(job->sees("rank      : 1 (local_rank: 1)"));
}

TEST_F(WorkerFaults, W16_AProgramThatCannotBeStartedIsSaidOnceBeforeAnythingRuns) {
  const auto missing = launch({"--nproc-per-node", "2", "./no-such-program"});
  EXPECT_EQ(missing->wait(), 127);
  EXPECT_LT(missing->lived(), allowed(1s));
  EXPECT_EQ(lines_of(missing->err()).size(), 1U) << missing->err();

  const std::string text = write_file("text", "echo hi\n");
  const auto refused = launch({"--nproc-per-node", "2", text});
  EXPECT_EQ(refused->wait(), 126);
  EXPECT_EQ(lines_of(refused->err()).size(), 1U) << refused->err();
  EXPECT_TRUE(refused->sees("chmod +x"));

  const auto script = launch({"--nproc-per-node", "2", "no-such-script.py"});
  EXPECT_EQ(script->wait(), 127);
}

TEST_F(WorkerFaults, W16_AProgramOfAnotherMachineIsNamed) {
  std::string image = read_all(DDP_FAKE_WORKER);
  ASSERT_EQ(image.substr(1, 3), "ELF");
  constexpr std::size_t kMachine = 18;  // e_machine of elf(5); 2 is a SPARC
  image[kMachine] = 2;
  const std::string path = write_file("external", image);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const auto job = launch({"--nproc-per-node", "2", path});
  EXPECT_EQ(job->wait(), 126);
  EXPECT_LT(job->lived(), allowed(1s));
  EXPECT_TRUE(job->sees(path));
  EXPECT_TRUE(job->sees("neither a program of this machine nor a script"));
}

TEST_F(WorkerFaults, W16_AMissingSharedLibraryIsNamed) {
  const std::filesystem::path library = scratch() / "libmissing_library.so";
  std::filesystem::copy_file(DDP_MISSING_LIBRARY, library);
  const Command command{
      .arguments = {DDP_LAUNCH, "--nproc-per-node", "2", DDP_NEEDS_MISSING_LIBRARY},
      .environment = {{"LD_LIBRARY_PATH", scratch().string()}}};
  EXPECT_EQ(start(command)->wait(), 0);
  std::filesystem::remove(library);
  const auto job = start(command);
  EXPECT_EQ(job->wait(), 127);
  EXPECT_TRUE(job->sees("exit code 127 (program or shared library not found)"));
  EXPECT_TRUE(
      job->sees("/needs_missing_library is there, its shared library libmissing_library.so is not: "
                "install it"));
  EXPECT_TRUE(alive().empty()) << testing::PrintToString(alive());
}

TEST_F(WorkerFaults, W16_AnExecThatFailsAllTheSameStartsNoWorker) {
  const std::string path = write_file("bad", "#!/no/such/interpreter\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const auto job = launch({"--nproc-per-node", "2", path});
  EXPECT_EQ(job->wait(), 127);
  EXPECT_LT(job->lived(), allowed(1s));
  EXPECT_TRUE(job->sees("interpreter"));
}

}  // namespace
}  // namespace ddp::test
