#include "common/text/parse_whole.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ddp {
namespace {

TEST(ParseWhole, TheWholeTextIsTheNumber) {
  EXPECT_EQ(parse_whole<int>("42"), 42);
  EXPECT_EQ(parse_whole<int>("-7"), -7);
  EXPECT_EQ(parse_whole<int>("-0"), 0);
  EXPECT_EQ(parse_whole<double>("1e-3"), 1e-3);
  for (const char* const text : {"", " 1", "1 ", "+1", "1x", "x", "-", "1.5", "0x10"})
    EXPECT_EQ(parse_whole<int>(text), std::nullopt) << text;
}

TEST(ParseWhole, ANumberOutOfRangeIsRefused) {
  EXPECT_EQ(parse_whole<int>("3", 3, 5), 3);
  EXPECT_EQ(parse_whole<int>("5", 3, 5), 5);
  EXPECT_EQ(parse_whole<int>("2", 3, 5), std::nullopt);
  EXPECT_EQ(parse_whole<int>("6", 3, 5), std::nullopt);
  EXPECT_EQ(parse_whole<int>("2147483648"), std::nullopt);
  EXPECT_EQ(parse_whole<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_whole<std::uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_whole<std::uint16_t>("-0"), std::nullopt);
  for (const char* const text : {"nan", "inf", "-inf", "1e999"})
    EXPECT_EQ(parse_whole<double>(text), std::nullopt) << text;
}

}  // namespace
}  // namespace ddp
