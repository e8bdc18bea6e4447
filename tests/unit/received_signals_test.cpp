#include "launcher/plan/round/received_signals.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(SignalMeaning, ListedAndSchedulersSignalsStopTheJob) {
  const std::vector<int> listed{SIGTERM, SIGINT};
  EXPECT_EQ(meaning_of(SIGCHLD, listed, true), SignalMeaning::child_changed);
  EXPECT_EQ(meaning_of(SIGTSTP, listed, true), SignalMeaning::ignored);
  EXPECT_EQ(meaning_of(SIGTSTP, {SIGTSTP}, true), SignalMeaning::stops);
  EXPECT_EQ(meaning_of(SIGTERM, listed, false), SignalMeaning::stops);
  EXPECT_EQ(meaning_of(SIGHUP, listed, true), SignalMeaning::passed_on);
  EXPECT_EQ(meaning_of(SIGUSR1, listed, true), SignalMeaning::stops);
  EXPECT_EQ(meaning_of(SIGUSR1, listed, false), SignalMeaning::passed_on);
  EXPECT_EQ(meaning_of(SIGUSR1, {SIGUSR1}, false), SignalMeaning::stops);
}

}  // namespace
}  // namespace ddp::launcher
