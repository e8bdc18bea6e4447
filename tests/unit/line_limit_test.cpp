#include "launcher/plan/output/line_limit.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

constexpr LineLimit::Time kLimitNow{1000s};

TEST(LineLimit, TheLastLineOfAWhileIsKnownAndTheNextWhileBeginsAnew) {
  using Show = LineLimit::Show;
  LineLimit limit(2, 10s);
  EXPECT_EQ(limit.count_line(kLimitNow), Show::line);
  EXPECT_EQ(limit.count_line(kLimitNow + 1s), Show::last_line);
  EXPECT_EQ(limit.count_line(kLimitNow + 9s), Show::nothing);
  EXPECT_EQ(limit.count_line(kLimitNow + 10s), Show::line);
}

}  // namespace
}  // namespace ddp::launcher
