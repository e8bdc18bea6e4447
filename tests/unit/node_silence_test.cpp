#include "launcher/plan/round/node_silence.h"

#include <gtest/gtest.h>

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
  EXPECT_FALSE(silence.note_heard(kNow, kNow + 2500ms));
  EXPECT_FALSE(silence.note_heard(kNow, kNow + 3s));
  EXPECT_FALSE(silence.note_heard(kNow, kNow + 4s));
  EXPECT_EQ(silence.note_heard(kNow + 4100ms, kNow + 4200ms), 4100ms);
  EXPECT_FALSE(silence.note_heard(kNow + 4100ms, kNow + 4400ms));
}

}  // namespace
}  // namespace ddp::launcher
