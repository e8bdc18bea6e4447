#include "launcher/plan/hang/stack_sources.h"

#include <gmock/gmock.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::uint64_t bit(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

SessionProcess python(pid_t pid, pid_t parent, const std::string& command) {
  return {pid, parent, 10, bit(SIGABRT), "/usr/bin/python3.11", command};
}

TEST(StackSources, AProcessThatCatchesSigusr2IsAskedByItElseBySigabrt) {
  const std::vector<SessionProcess> processes{
      {10, 1, 10, bit(SIGUSR2) | bit(SIGABRT), "/bin/train", "train"},
      {20, 1, 20, bit(SIGABRT), "/usr/bin/python3", "python3 train.py"},
      {30, 1, 30, bit(SIGTERM), "/bin/other", "other"}};
  EXPECT_THAT(choose_stack_sources(processes),
              ElementsAre(StackSource{10, 10, SIGUSR2, false}, StackSource{20, 20, SIGABRT, true}));
}

TEST(StackSources, AWrapperIsLookedBehind) {
  const std::vector<SessionProcess> processes{{10, 1, 10, bit(SIGCHLD), "/bin/bash", "bash run.sh"},
                                              python(11, 10, "python3 train.py"),
                                              python(12, 11, "python3 -m tool")};
  EXPECT_THAT(choose_stack_sources(processes),
              ElementsAre(StackSource{11, 10, SIGABRT, true}, StackSource{12, 10, SIGABRT, true}));
}

TEST(StackSources, LoadersOfDataAreLeftOut) {
  const std::vector<SessionProcess> processes{
      python(10, 1, "python3 train.py"),
      python(11, 10, "python3 train.py"),
      python(12, 10, "python3 -c from multiprocessing.spawn import spawn_main")};
  EXPECT_THAT(choose_stack_sources(processes), ElementsAre(StackSource{10, 10, SIGABRT, true}));
}

TEST(StackSources, PythonWithoutAHandlerIsForPySpyAlone) {
  SessionProcess process = python(10, 1, "python3 train.py");
  process.caught = 0;
  EXPECT_THAT(choose_stack_sources(std::vector{process}),
              ElementsAre(StackSource{10, 10, 0, true}));
  process.executable = "/bin/train";
  EXPECT_THAT(choose_stack_sources(std::vector{process}), IsEmpty());
}

}  // namespace
}  // namespace ddp::launcher
