#include "common/text/units.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp {
namespace {

using std::chrono::milliseconds;

TEST(Units, DurationsNeedAUnit) {
  EXPECT_EQ(parse_duration("500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("30s"), milliseconds(30'000));
  EXPECT_EQ(parse_duration("1.5s"), milliseconds(1500));
  EXPECT_EQ(parse_duration("10min"), milliseconds(600'000));
  EXPECT_EQ(parse_duration("2h"), milliseconds(7'200'000));
  EXPECT_EQ(parse_duration("0"), milliseconds(0));
  for (const char* const bad :
       {"", "30", "s", "-1s", "-0s", "1e400s", "nan s", "inf", "30 sec", "20000d", "1s2"}) {
    EXPECT_FALSE(parse_duration(bad).has_value()) << bad;
  }
}

TEST(Units, SizesNeedAUnit) {
  EXPECT_EQ(parse_bytes("25MiB"), 25 << 20);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("10MB"), 10'000'000);
  EXPECT_EQ(parse_bytes("12B"), 12);
  for (const char* const bad : {"", "25", "MiB", "-1B", "25mib", "1e30TiB", "nan", "0x10B"}) {
    EXPECT_FALSE(parse_bytes(bad).has_value()) << bad;
  }
}

TEST(Units, FormattedDurationsReadBackEqual) {
  for (const int count : {1, 999, 1000, 1500, 60'000, 90'000, 3'600'000, 0}) {
    EXPECT_EQ(parse_duration(format_duration(milliseconds(count))), milliseconds(count)) << count;
  }
}

TEST(Units, SizesAreShownWithOneDigit) {
  EXPECT_EQ(format_bytes(12), "12 B");
  EXPECT_EQ(format_bytes(14 << 10), "14.0 KiB");
  EXPECT_EQ(format_bytes(std::int64_t{5} << 30), "5.0 GiB");
}

}  // namespace
}  // namespace ddp
