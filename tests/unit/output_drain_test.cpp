#include "launcher/plan/round/output_drain.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

TEST(OutputDrain, DrainIsOverWhenEveryStreamHasEnded) {
  OutputDrain drain;
  EXPECT_FALSE(drain.is_over(1));
  EXPECT_TRUE(drain.is_over(0));
}

TEST(OutputDrain, WaitsNoLongerThanItMayForAProcessThatHasAStreamOpen) {
  OutputDrain drain;
  drain.note_wait(0, 1s);
  EXPECT_FALSE(drain.is_over(2));
  drain.note_wait(0, 1s);
  EXPECT_TRUE(drain.is_over(2));
}

TEST(OutputDrain, WaitsForTheWriterAsLongAsItTakes) {
  OutputDrain drain;
  drain.note_wait(1, 1h);
  EXPECT_FALSE(drain.is_over(1));
}

}  // namespace
}  // namespace ddp::launcher
