#include "launcher/plan/round/drain.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

TEST(Drain, IsOverWhenEveryStreamHasEnded) {
  Drain drain;
  EXPECT_FALSE(drain.is_over(1));
  EXPECT_TRUE(drain.is_over(0));
}

TEST(Drain, WaitsNoLongerThanItMayForAProcessThatHasAStreamOpen) {
  Drain drain;
  drain.note_wait(0, 1s);
  EXPECT_FALSE(drain.is_over(2));
  drain.note_wait(0, 1s);
  EXPECT_TRUE(drain.is_over(2));
}

TEST(Drain, WaitsForTheWriterAsLongAsItTakes) {
  Drain drain;
  drain.note_wait(1, 1h);
  EXPECT_FALSE(drain.is_over(1));
}

}  // namespace
}  // namespace ddp::launcher
