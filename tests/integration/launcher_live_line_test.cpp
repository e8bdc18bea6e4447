// How a job of one node goes, on a terminal and elsewhere.
#include <gmock/gmock.h>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class LiveLine : public ProcessTest {
 protected:
  std::unique_ptr<Running> launch_on_terminal(const std::string& words) {
    const std::string line = std::string(DDP_LAUNCH) + " " + words;
    return start(Command{.arguments = {"script", "-qefc", line, "/dev/null"},
                         .environment = {{"NO_COLOR", "1"}}});
  }
};

constexpr const char* kLine = "step [0-9]+/600 \\([0-9]+%\\), loss [0-9.]+";
constexpr const char* kErase = "\r\x1b[K";

TEST_F(LiveLine, ATrainingIsShownInPlaceAndNothingOfItStays) {
  const std::string runs = (scratch() / "runs").string();
  const auto job = launch_on_terminal("--nproc-per-node 2 --output " + runs + " " +
                                      DDP_FAKE_WORKER + " steps 300 0.01 finish print bye");
  EXPECT_EQ(job->wait(), 0) << job->out();
  EXPECT_THAT(job->out(), ContainsRegex(kLine));
  const std::size_t last = job->out().rfind("epoch 1, step");
  ASSERT_NE(last, std::string::npos);
  const std::string behind = job->out().substr(last);
  EXPECT_THAT(behind.substr(0, behind.find('\n')), HasSubstr(kErase)) << behind;
  for (const char* const name : {"rank-0.out", "rank-0.err"}) {
    const auto file = scratch() / "runs/fake_worker/logs/round-0" / name;
    EXPECT_THAT(read_all(file), Not(HasSubstr("step"))) << file;
  }
}

TEST_F(LiveLine, OffAndPlainLeaveATerminalAloneAndAPipeHasNone) {
  const std::string rest = std::string(" ") + DDP_FAKE_WORKER + " steps 300 0.005 finish";
  for (const char* const flag : {"--progress off", "--progress plain"}) {
    const auto job = launch_on_terminal(flag + rest);
    EXPECT_EQ(job->wait(), 0) << job->out();
    EXPECT_THAT(job->out(), Not(HasSubstr("loss"))) << flag;
    EXPECT_THAT(job->out(), Not(HasSubstr("\x1b[K"))) << flag;
  }
  const auto job = launch_fakes(1, "steps 300 0.005 finish");
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->err(), Not(HasSubstr("loss")));
}

TEST_F(LiveLine, AWordThatIsNoneIsAUsageError) {
  const auto job = launch({"--progress", "bar", DDP_FAKE_WORKER, "exit", "0"});
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(), HasSubstr("auto"));
}

// A state of a bar as tqdm draws it: no line end, but a carriage return before it.
std::string state(const std::string& percent) {
  return " '\r" + percent + "|## | [2.5it/s]' ";
}

// On a pipe it is a line every five seconds, which is tested with the faults of output (row O2).
TEST_F(LiveLine, TheBarOfRankZeroIsDrawnInPlaceAndThoseOfOthersAreInTheirFiles) {
  const std::string runs = (scratch() / "runs").string();
  const auto job = launch_on_terminal(
      "--nproc-per-node 2 --output " + runs + " " + DDP_FAKE_WORKER + " pid partial" +
      state("10%") + "wait USR1 partial" + state("20%") + "error between wait USR2 partial" +
      state("99%") + "print" + state("100%") + "print bye");
  const auto go_on = [&](int signal) {
    for (const char* const rank : {"[0:0] pid ", "[0:1] pid "})
      send_signal(job->number_after(rank), signal);
  };
  EXPECT_TRUE(job->sees("[0:0] 10%|## | [2.5it/s]")) << job->out();
  go_on(SIGUSR1);
  EXPECT_TRUE(job->sees("[0:0] 20%|## | [2.5it/s]")) << job->out();
  EXPECT_TRUE(job->sees("[0:0] between") && job->sees("[0:1] between")) << job->out();
  // Who says nothing for long has a bar that says more than our line would.
  EXPECT_FALSE(job->sees("of 2 ranks run", std::chrono::seconds(7))) << job->out();
  go_on(SIGUSR2);
  EXPECT_EQ(job->wait(), 0) << job->out();
  EXPECT_THAT(job->out(), HasSubstr("\r\x1b[K[0:0] 100%|## | [2.5it/s]\r\n"));
  EXPECT_THAT(job->out(), Not(HasSubstr("[0:1] 1")));
  EXPECT_THAT(job->out(), Not(HasSubstr("[0:1] 2")));
  EXPECT_THAT(job->out(), Not(HasSubstr("[0:1] 9")));
  EXPECT_THAT(job->out(), HasSubstr("[0:1] bye"));
  EXPECT_THAT(read_all(scratch() / "runs/fake_worker/logs/round-0/rank-1.out"),
              HasSubstr("\r99%|## | [2.5it/s]\r100%|## | [2.5it/s]\nbye\n"));
}

TEST_F(LiveLine, OtherProgramsAreToldOfOnceTheyAreQuiet) {
  const auto job = launch_on_terminal(std::string("--nproc-per-node 2 ") + DDP_FAKE_WORKER +
                                      " print on wait USR1");
  EXPECT_TRUE(job->sees("2 of 2 ranks run, ")) << job->out();
  EXPECT_THAT(job->out(), ContainsRegex("run, [5-9] s since the last output of rank"));
  job->signal(SIGTERM);
  job->wait();
}

}  // namespace
}  // namespace ddp::test
