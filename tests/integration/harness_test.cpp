// What the process tests stand on: a pid that was not found is never signalled, as kill(2) takes
// -1 for every process of the machine.
#include <signal.h>

#include <iostream>

#include "common/node/environment.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;

class Harness : public ProcessTest {
 protected:
  static void ask_for_what_is_not_there() { ASSERT_TRUE(false) << "asked for"; }
};

TEST_F(Harness, ANumberIsTakenWhenItIsWhole) {
  const auto program =
      start({.arguments = {DDP_FAKE_WORKER, "partial", "pid 12", "wait", "USR1", "print", "34"}});
  ASSERT_TRUE(program->sees("pid 12"));
  EXPECT_THROW(program->number_after("pid ", 50ms), std::runtime_error);
  program->signal(SIGUSR1);
  EXPECT_EQ(program->number_after("pid "), 1234);
  EXPECT_EQ(program->wait(), 0);
}

TEST_F(Harness, TheLastNumberEndsWithTheStream) {
  const auto program =
      start({.arguments = {DDP_FAKE_WORKER, "print", "pid no", "partial", "pid 5"}});
  EXPECT_EQ(program->number_after("pid "), 5);
  EXPECT_EQ(program->wait(), 0);
}

TEST_F(Harness, ANumberThatNeverComesEndsTheTest) {
  const auto program = start({.arguments = {DDP_FAKE_WORKER, "print", "ready", "hold"}});
  EXPECT_THROW(program->number_after("pid ", 50ms), std::runtime_error);
  const auto ended = start({.arguments = {DDP_FAKE_WORKER, "print", "ready"}});
  EXPECT_THROW(ended->number_after("pid "), std::runtime_error);
  EXPECT_EQ(ended->wait(), 0);
}

TEST_F(Harness, NoSignalGoesToEverybody) {
  for (const pid_t pid : {-2, -1, 0, 1})
    EXPECT_THROW(send_signal(pid, 0), std::invalid_argument) << pid;
}

TEST_F(Harness, AFailedAssertionInAHelperEndsTheTest) {
  if (find_variable(read_environment(), "DDP_TEST_FAILS")) {
    ask_for_what_is_not_there();
    std::cout << "went on" << std::endl;
    return;
  }
  const auto itself =
      start({.arguments = {"/proc/self/exe",
                           "--gtest_filter=Harness.AFailedAssertionInAHelperEndsTheTest"},
             .environment = {{"DDP_TEST_FAILS", "1"}}});
  EXPECT_EQ(itself->wait(), 1);
  EXPECT_TRUE(itself->sees("asked for"));
  EXPECT_EQ(count(itself->out(), "went on"), 0U) << itself->out();
}

}  // namespace
}  // namespace ddp::test
