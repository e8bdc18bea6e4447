#include "worker/save/records/metrics_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "common/cli/log.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class MetricsCommandTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    log::open("ddp-hook", log::Level::info);
    ::signal(SIGPIPE, SIG_IGN);  // as common/cli/streams does
  }

  /// What is said of a program of the shell that gets `lines`.
  std::string said_of(const std::string& script, const std::vector<std::string>& lines) {
    testing::internal::CaptureStderr();
    MetricsCommand command("metrics.command: sh",
                           {"sh", "-c", script, "hook", scratch_.path().string()},
                           std::chrono::milliseconds(500));
    for (const std::string& line : lines)
      command.feed(line);
    command.close("the end\n");
    command.wait();
    return testing::internal::GetCapturedStderr();
  }

  Scratch scratch_;
};

TEST_F(MetricsCommandTest, TheProgramGetsAllLinesInTheirOrder) {
  std::vector<std::string> lines;
  std::string whole;
  for (int i = 0; i < 10'000; ++i) {
    lines.push_back("{\"step\":" + std::to_string(i) + "}\n");
    whole += lines.back();
  }
  EXPECT_THAT(said_of("cat >$1/all", lines), IsEmpty());
  EXPECT_EQ(scratch_.read("all"), whole + "the end\n");
}

TEST_F(MetricsCommandTest, CommandThatDoesNotReadDelaysOnlyTheEnd) {
  const std::vector<std::string> lines(100, std::string(100'000, 'x') + "\n");
  const auto start = std::chrono::steady_clock::now();
  const std::string said = said_of("kill -STOP $$", lines);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_THAT(said,
              AllOf(HasSubstr("metrics.command: sh is too slow: lines are left out"),
                    HasSubstr("did not get "),
                    HasSubstr("it is killed")));
  EXPECT_EQ(said.find("too slow"), said.rfind("too slow"));
}

TEST_F(MetricsCommandTest, DeadCommandIsReportedOnce) {
  const std::string said =
      said_of("read line; exit 3", std::vector<std::string>(1000, std::string(1000, 'x') + "\n"));
  EXPECT_THAT(said, HasSubstr("metrics.command: sh: it ended with exit code 3"));
  EXPECT_EQ(said.find("metrics.command"), said.rfind("metrics.command")) << said;
}

TEST_F(MetricsCommandTest, CommandThatEndsBeforeItsLastLineIsReported) {
  const std::string said =
      said_of("read line; exit 0", std::vector<std::string>(1000, std::string(1000, 'x') + "\n"));
  EXPECT_THAT(said, HasSubstr("metrics.command: sh: it ended before its last line. Training"));
}

TEST_F(MetricsCommandTest, AFailureAfterTheLastLineIsSaidToo) {
  EXPECT_THAT(said_of("cat >/dev/null; exit 4", {"a\n"}), HasSubstr("exit code 4"));
}

TEST_F(MetricsCommandTest, MissingCommandIsReportedOnce) {
  testing::internal::CaptureStderr();
  MetricsCommand command("metrics.command: /no/such/program", {"/no/such/program"});
  command.feed("a\n");
  command.close("b\n");
  command.wait();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said,
              AllOf(HasSubstr("metrics.command: /no/such/program: "),
                    HasSubstr("No such file or directory"),
                    HasSubstr("Training goes on without it.")));
  EXPECT_EQ(said.find("metrics.command"), said.rfind("metrics.command")) << said;
}

TEST_F(MetricsCommandTest, ChildrenOfTheCommandAreKilledWithIt) {
  EXPECT_THAT(said_of("(trap '' TERM; kill -STOP $(sh -c 'echo $PPID')) & echo $! >$1/pid; "
                      "cat >/dev/null",
                      {}),
              IsEmpty());
  const std::string pid = scratch_.read("pid");
  ASSERT_FALSE(pid.empty());
  const auto is_there = [&] {
    std::ifstream stat("/proc/" + pid.substr(0, pid.find('\n')) + "/stat");
    std::string number, name, state;
    return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (is_there() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_FALSE(is_there());
}

}  // namespace
}  // namespace ddp::worker
