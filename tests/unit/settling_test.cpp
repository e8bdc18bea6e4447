#include "launcher/plan/round/settling.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using Step = Settling::Step;

TEST(Settling, EveryRowOfItsTable) {
  const Settling::Time begin{1000s};
  const Settling settling(begin);
  EXPECT_EQ(settling.advance(2, begin), Step::wait);
  EXPECT_EQ(settling.advance(0, begin), Step::settled);
  EXPECT_EQ(settling.advance(1, begin + Settling::kLongest - 1ms), Step::wait);
  EXPECT_EQ(settling.advance(1, begin + Settling::kLongest), Step::settled);
  EXPECT_EQ(Settling::note_kill_command(), Step::nobody_survives);
  EXPECT_EQ(Settling::note_signal(true), Step::nobody_survives);
  EXPECT_EQ(Settling::note_signal(false), Step::wait);  // it is for the workers
}

}  // namespace
}  // namespace ddp::launcher
