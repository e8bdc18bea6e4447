#include "launcher/plan/round/node_silence.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

constexpr NodeSilence::Time kSilenceNow{1000s};

TEST(NodeSilence, ANodeIsLostAfterMoreThanALease) {
  EXPECT_FALSE(NodeSilence::is_lost(kSilenceNow - 5s, kSilenceNow));
  EXPECT_TRUE(NodeSilence::is_lost(kSilenceNow - 5001ms, kSilenceNow));
}

TEST(NodeSilence, AQuietNodeIsToldOfOnceItIsHeardAgain) {
  NodeSilence silence;
  EXPECT_FALSE(silence.note_heard(kSilenceNow, kSilenceNow + 2500ms));
  EXPECT_FALSE(silence.note_heard(kSilenceNow, kSilenceNow + 3s));
  EXPECT_FALSE(silence.note_heard(kSilenceNow, kSilenceNow + 4s));
  EXPECT_EQ(silence.note_heard(kSilenceNow + 4100ms, kSilenceNow + 4200ms), 4100ms);
  EXPECT_FALSE(silence.note_heard(kSilenceNow + 4100ms, kSilenceNow + 4400ms));
}

}  // namespace
}  // namespace ddp::launcher
