#include "launcher/plan/exit_status.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddp::launcher {
namespace {

TEST(ExitStatus, TextsNameCodeOrSignal) {
  EXPECT_EQ(to_text(ExitStatus{7, 0, false}), "exit code 7");
  EXPECT_EQ(to_text(ExitStatus{138, 0, false}), "exit code 138");
  EXPECT_EQ(to_text(ExitStatus{0, SIGKILL, false}), "signal SIGKILL (9)");
}

TEST(ExitStatus, SignalNamesReadBothWays) {
  EXPECT_EQ(signal_number("SIGTERM"), SIGTERM);
  EXPECT_EQ(signal_number("TERM"), SIGTERM);
  EXPECT_EQ(signal_number("SIGNONSENSE"), 0);
  EXPECT_EQ(signal_name(SIGHUP), "SIGHUP");
}

}  // namespace
}  // namespace ddp::launcher
