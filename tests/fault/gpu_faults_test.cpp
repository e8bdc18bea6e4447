// Memory of GPUs between two rounds: row S5 of CASES.md. The driver's library is played
// by one of the tests' own; whether the real one tells the same needs a GPU.
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::Not;

class GpuFaults : public ProcessTest {
 protected:
  void set_holders(const std::string& text) { std::ofstream(file_) << text; }

  /// Rank 1 fails when it is told to; in the next round both say so and wait for the same signal.
  std::unique_ptr<Running> launch_two() {
    return start(
        {.arguments = {DDP_LAUNCH,
                       "--nproc-per-node=2",
                       "--max-restarts",
                       "1",
                       "--grace",
                       "2s",
                       DDP_FAKE_WORKER,
                       "round",
                       "0",
                       "[",
                       "pid",
                       "on",
                       "1",
                       "[",
                       "wait",
                       "USR1",
                       "exit",
                       "7",
                       "]",
                       "hold",
                       "]",
                       "print",
                       "again",
                       "wait",
                       "USR1"},
         .environment = {{"LD_LIBRARY_PATH", DDP_FAKE_NVML_DIR}, {"DDP_FAKE_NVML", file_}}});
  }
  void fail(Running& job) {
    ASSERT_TRUE(job.sees("[0:0] pid "));
    victim_ = job.number_after("[0:1] pid ");
  }
  void end_well(Running& job) {
    for (const int rank : {0, 1})
      ASSERT_TRUE(job.sees("[0:" + std::to_string(rank) + "] again")) << job.err();
    for (const std::string& process : alive()) {
      if (process.find("ddp-launch") == std::string::npos) send_signal(std::stoi(process), SIGUSR1);
    }
    EXPECT_EQ(job.wait(), 0) << job.err();
  }

  /// The process that asks the driver, once its alarm can end it; 0: there is none.
  [[nodiscard]] pid_t asking() const {
    for (const std::string& process : alive()) {
      const pid_t pid = std::stoi(process);
      const bool is_probe =
          read_all("/proc/" + process.substr(0, process.find(' ')) + "/comm") == "ddp-probe\n";
      if (is_probe && !blocks_signal(pid, SIGALRM)) return pid;
    }
    return 0;
  }

  const std::string file_ = write_file("holders", "");
  pid_t victim_ = 0;
};

TEST_F(GpuFaults, S5_ARoundWaitsForTheMemoryOfTheLastOneAndNamesWhoHoldsIt) {
  const auto job = launch_two();
  fail(*job);
  set_holders("0 1\n1 " + std::to_string(victim_) + "\n");
  send_signal(victim_, SIGUSR1);
  const std::string who = "rank 1 (pid " + std::to_string(victim_) + ") on GPU 1";
  ASSERT_TRUE(job->sees("waiting for the GPU memory of the last round, at most 50 s: " + who));
  job->read_for(3s);
  EXPECT_THAT(job->out(), Not(HasSubstr("again")));
  set_holders("0 1\n");
  const auto begin = steady_clock::now();
  ASSERT_TRUE(job->sees("the GPU memory of the last round is free after"));
  ASSERT_TRUE(job->sees("again"));
  EXPECT_LT(steady_clock::now() - begin, kInstrumented ? 20s : 3s);  // it looks every 2 s
  end_well(*job);
}

TEST_F(GpuFaults, S5_OtherJobsOnTheGpusAreNotWaitedFor) {
  const auto job = launch_two();
  fail(*job);
  set_holders("0 1\n1 4194304\n");
  send_signal(victim_, SIGUSR1);
  end_well(*job);
  EXPECT_THAT(job->err(), Not(HasSubstr("GPU memory")));
}

TEST_F(GpuFaults, S5_AStopDoesNotWaitForMemory) {
  const auto job = launch_two();
  fail(*job);
  set_holders("1 " + std::to_string(victim_) + "\n");
  send_signal(victim_, SIGUSR1);
  ASSERT_TRUE(job->sees("waiting for the GPU memory"));
  const auto begin = steady_clock::now();
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 128 + SIGTERM);
  EXPECT_LT(steady_clock::now() - begin, kInstrumented ? 20s : 2s);
  EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
}

// Of a GPU that is broken nothing is heard: the agent goes on all the while, and a stop is heard.
TEST_F(GpuFaults, S5_ADriverThatDoesNotAnswerHoldsNobody) {
  for (const bool is_stopped : {true, false}) {
    set_holders("");
    const auto job = launch_two();
    fail(*job);
    set_holders("hang\n");
    send_signal(victim_, SIGUSR1);
    ASSERT_TRUE(job->sees("round 1 starts now"));
    const auto begin = steady_clock::now();
    if (is_stopped) {
      job->read_for(500ms);
      job->signal(SIGTERM);
      EXPECT_EQ(job->wait(), 128 + SIGTERM);
      EXPECT_LT(steady_clock::now() - begin, kInstrumented ? 20s : 3s);
    } else {
      end_well(*job);
      EXPECT_LT(steady_clock::now() - begin, kInstrumented ? 30s : 13s);
    }
    EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
  }
}

TEST_F(GpuFaults, S5_AnAgentKilledMeanwhileLeavesNothing) {
  const auto job = launch_two();
  fail(*job);
  set_holders("hang\n");
  send_signal(victim_, SIGUSR1);
  ASSERT_TRUE(job->sees("round 1 starts now"));
  // Its alarm ends the process that asks, should the agent be gone before it is bound to that.
  EXPECT_TRUE(eventually([&] { return asking() > 0; }, kTestTimeout));
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
}

}  // namespace
}  // namespace ddp::test
