#include "common/text/one_line.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(OneLine, TextStaysAsItIs) {
  EXPECT_EQ(one_line("optimizer.lr was 0.05, \u00b5 = 3"), "optimizer.lr was 0.05, \u00b5 = 3");
}

TEST(OneLine, ControlCharactersAreReplaced) {
  EXPECT_EQ(one_line("a\nddp-launch: b\r\t\x1b[2J\x7f"), "a?ddp-launch: b???[2J?");
  EXPECT_EQ(one_line("\u009b31m"), "?31m");
  EXPECT_EQ(one_line("\xff\xc2"), "\ufffd\ufffd");
}

TEST(OneLine, DirectionMarksAreReplaced) {
  EXPECT_EQ(one_line("a\u202eb\u2066c\u200fd\u2028e"), "a?b?c?d?e");
  EXPECT_EQ(one_line("\u05e9\u05dc\u05d5\u05dd"), "\u05e9\u05dc\u05d5\u05dd") << "Hebrew stays";
}

TEST(OneLine, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(one_line("12345", 5), "12345");
  EXPECT_EQ(one_line("123456", 5), "12345...");
  EXPECT_EQ(one_line("1234\u00b5", 5), "1234...");
}

}  // namespace
}  // namespace ddp
