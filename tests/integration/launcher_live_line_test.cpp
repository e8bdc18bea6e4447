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
    return start(Command{.arguments = {"script", "-qefc", line, "/dev/null"}});
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
