#include "common/text/utf8.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(Utf8, ASequenceHasItsLength) {
  EXPECT_EQ(utf8_length(std::string_view("\0", 1)), 1U);
  EXPECT_EQ(utf8_length("a\xff"), 1U);
  EXPECT_EQ(utf8_length("\xc3\xa4"), 2U);
  EXPECT_EQ(utf8_length("\xe2\x82\xac"), 3U);
  EXPECT_EQ(utf8_length("\xf0\x9f\x98\x80"), 4U);
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf"), 4U);
}

TEST(Utf8, InvalidUtf8HasNoLength) {
  for (const std::string_view text : {"",
                                      "\x80",
                                      "\xc3",
                                      "\xc3(",
                                      "\xc0\x80",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe2\x82"})
    EXPECT_EQ(utf8_length(text), 0U) << testing::PrintToString(std::string(text));
}

TEST(Utf8, ControlCharactersAreFound) {
  for (const std::string_view text : {"\x1b",
                                      "\x7f",
                                      "\n",
                                      "\u0085",
                                      "\u009b",
                                      "\u061c",
                                      "\u200e",
                                      "\u200f",
                                      "\u2028",
                                      "\u2029",
                                      "\u202a",
                                      "\u202e",
                                      "\u2066",
                                      "\u2069"}) {
    EXPECT_TRUE(is_control(text)) << testing::PrintToString(std::string(text));
    EXPECT_TRUE(has_control("a" + std::string(text) + "b"));
  }
  for (const std::string_view text : {" ",
                                      "~",
                                      "\u00a0",
                                      "\u061b",
                                      "\u05d0",
                                      "\u200d",
                                      "\u2010",
                                      "\u202f",
                                      "\u2065",
                                      "\u206a",
                                      "\xe2",
                                      "\U0001f600"}) {
    EXPECT_FALSE(is_control(text)) << testing::PrintToString(std::string(text));
    EXPECT_FALSE(has_control("a" + std::string(text) + "b"));
  }
}

TEST(Utf8, ACharacterHasItsNumber) {
  EXPECT_EQ(code_point("a"), 0x61U);
  EXPECT_EQ(code_point("\xff"), 0xffU);
  EXPECT_EQ(code_point("\u00b5"), 0xb5U);
  EXPECT_EQ(code_point("\u202e"), 0x202eU);
  EXPECT_EQ(code_point("\U0001f600"), 0x1f600U);
}

TEST(Utf8, TheValidHeadEndsAtTheFirstBadByte) {
  EXPECT_EQ(valid_utf8(""), 0U);
  EXPECT_EQ(valid_utf8("a\xc3\xa4z"), 4U);
  EXPECT_EQ(valid_utf8("a\xc3\xa4\xff..."), 3U);
}

}  // namespace
}  // namespace ddp
