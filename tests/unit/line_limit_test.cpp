#include "launcher/plan/output/line_limit.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

constexpr LineLimit::Time kNow{1000s};

TEST(LineLimit, TheLastLineOfAWhileIsKnownAndTheNextWhileBeginsAnew) {
  using Show = LineLimit::Show;
  LineLimit limit(2, 10s);
  EXPECT_EQ(limit.take(kNow), Show::line);
  EXPECT_EQ(limit.take(kNow + 1s), Show::last_line);
  EXPECT_EQ(limit.take(kNow + 9s), Show::nothing);
  EXPECT_EQ(limit.take(kNow + 10s), Show::line);
}

}  // namespace
}  // namespace ddp::launcher
