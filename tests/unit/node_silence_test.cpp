#include "launcher/plan/node_silence.h"

#include <gtest/gtest.h>

#include "launcher/plan/line_limit.h"
#include "launcher/plan/signal_meaning.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

constexpr NodeSilence::Time kNow{1000s};

TEST(NodeSilence, ANodeIsLostAfterMoreThanALease) {
  EXPECT_FALSE(NodeSilence::is_lost(kNow - 5s, kNow));
  EXPECT_TRUE(NodeSilence::is_lost(kNow - 5001ms, kNow));
}

TEST(NodeSilence, AQuietNodeIsToldOfOnceItIsHeardAgain) {
  NodeSilence silence;
  EXPECT_FALSE(silence.look(kNow, kNow + 2500ms));
  EXPECT_FALSE(silence.look(kNow, kNow + 3s));
  EXPECT_FALSE(silence.look(kNow, kNow + 4s));
  EXPECT_EQ(silence.look(kNow + 4100ms, kNow + 4200ms), 4100ms);
  EXPECT_FALSE(silence.look(kNow + 4100ms, kNow + 4400ms));
}

TEST(LineLimit, TheLastLineOfAWhileIsKnownAndTheNextWhileBeginsAnew) {
  using Show = LineLimit::Show;
  LineLimit limit(2, 10s);
  EXPECT_EQ(limit.take(kNow), Show::line);
  EXPECT_EQ(limit.take(kNow + 1s), Show::last_line);
  EXPECT_EQ(limit.take(kNow + 9s), Show::nothing);
  EXPECT_EQ(limit.take(kNow + 10s), Show::line);
}

TEST(SignalMeaning, IsWhatTheUserHasListedAndWhatSchedulersMean) {
  const std::vector<int> listed{SIGTERM, SIGINT};
  EXPECT_EQ(meaning_of(SIGCHLD, listed, true), SignalMeaning::child_changed);
  EXPECT_EQ(meaning_of(SIGTSTP, listed, true), SignalMeaning::ignored);
  EXPECT_EQ(meaning_of(SIGTERM, listed, false), SignalMeaning::stops);
  EXPECT_EQ(meaning_of(SIGHUP, listed, true), SignalMeaning::passed_on);
  EXPECT_EQ(meaning_of(SIGUSR1, listed, true), SignalMeaning::stops);
  EXPECT_EQ(meaning_of(SIGUSR1, listed, false), SignalMeaning::passed_on);
  EXPECT_EQ(meaning_of(SIGUSR1, {SIGUSR1}, false), SignalMeaning::stops);
}

}  // namespace
}  // namespace ddp::launcher
