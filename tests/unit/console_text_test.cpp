#include "launcher/plan/output/console_text.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::string_literals;

std::string clean(const std::string& line) {
  std::string text;
  append_clean(text, line);
  return text;
}

TEST(ConsoleText, PlainLinesStay) {
  for (const char* const line :
       {"", "loss 0.5\tstep 3", "gr\xc3\xbc\xc3\x9f", "\xe2\x96\x88", "\xf0\x9f\x98\x80"}) {
    EXPECT_EQ(clean(line), line);
  }
}

TEST(ConsoleText, ALineIsCutByColumnsNotByBytes) {
  EXPECT_EQ(first_columns("abc", 3), "abc");
  EXPECT_EQ(first_columns("abcd", 3), "abc");
  EXPECT_EQ(first_columns("50%|\u2588\u2588\u2588 |", 6), "50%|\u2588\u2588");
  EXPECT_EQ(first_columns("\x1b[32mabcd\x1b[0m", 3), "\x1b[32mabc\x1b[0m");
  EXPECT_EQ(first_columns("\x1b[32mabc\x1b[0m", 3), "\x1b[32mabc\x1b[0m");
  EXPECT_EQ(first_columns("abc", 0), "");
  EXPECT_EQ(first_columns("\u8bad\u7ec3 9%", 5), "\u8bad\u7ec3 ") << "two columns each";
  EXPECT_EQ(first_columns("\u8bad\u7ec3", 3), "\u8bad");
  EXPECT_EQ(first_columns("\u2705\u26a1", 3), "\u2705");
  EXPECT_EQ(first_columns("ab\tcd\te", 10), "ab\tcd") << "a tab goes to the next eighth column";
}

TEST(ConsoleText, ProgressBarKeepsItsLastState) {
  EXPECT_EQ(clean("10%\r20%\r100%"), "100%");
  EXPECT_EQ(clean("a line of Windows\r"), "a line of Windows");
  EXPECT_EQ(clean("10%\r100%\r"), "100%");
  EXPECT_EQ(clean("\r"), "");
}

TEST(ConsoleText, DirectionMarksAreShownAsSuch) {
  EXPECT_EQ(clean("rm \u202efdp.txt"), "rm ?fdp.txt");
  EXPECT_EQ(plain_line("a\u2066b\u061c", 80), "a?b?");
}

TEST(ConsoleText, ColorsStayAndEndWithTheLine) {
  EXPECT_EQ(clean("\x1b[31mred\x1b[0m plain"), "\x1b[31mred\x1b[0m plain");
  EXPECT_EQ(clean("\x1b[1;38;5;9mred"), "\x1b[1;38;5;9mred\x1b[0m");
  EXPECT_EQ(clean("\x1b[31mred\x1b[m"), "\x1b[31mred\x1b[m");
}

TEST(ConsoleText, OtherSequencesGo) {
  EXPECT_EQ(clean("a\x1b[2Jb\x1b[10;3Hc\x1b[?25ld"), "abcd");
  EXPECT_EQ(clean("a\x1b]0;title\ab"), "ab");
  EXPECT_EQ(clean("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b"), "alinkb");
  EXPECT_EQ(clean("a\x1bPdevice\x1b\\b\x1b(Bc\x1b"
                  "7d"),
            "abcd");
  EXPECT_EQ(clean("a\x1b[>4;2mb"), "ab");  // ends with m, but sets the keyboard
  EXPECT_EQ(clean("a\x1b mb"), "ab");      // ends with m, but is not a control sequence
  for (const char* const line : {"a\x1b", "a\x1b[", "a\x1b[31", "a\x1b]0;never ends", "a\x1b("}) {
    EXPECT_EQ(clean(line), "a") << line;
  }
}

TEST(ConsoleText, ControlCharactersBecomeQuestionMarks) {
  EXPECT_EQ(clean("a\a\b\0c\x7f"s), "a???c?");
  EXPECT_EQ(clean("a\xc2\x9b"
                  "2Jb"),
            "a?2Jb");  // CSI in one character
}

TEST(ConsoleText, BytesThatAreNotUtf8AreReplaced) {
  const std::string lost = "\xef\xbf\xbd";
  EXPECT_EQ(clean("a\xff"
                  "b"),
            "a" + lost + "b");
  EXPECT_EQ(clean("\xc3"), lost);                                   // cut
  EXPECT_EQ(clean("\xc0\xaf"), lost + lost);                        // longer than needed
  EXPECT_EQ(clean("\xed\xa0\x80"), lost + lost + lost);             // half a pair
  EXPECT_EQ(clean("\xf4\x90\x80\x80"), lost + lost + lost + lost);  // beyond U+10FFFF
}

TEST(ConsoleText, NoByteCanMoveATerminal) {
  // Every byte after every other: what is left is text, tabs and colours.
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string line{'a', static_cast<char>(first), static_cast<char>(second), 'z'};
      for (const char c : clean(line)) {
        const auto byte = static_cast<unsigned char>(c);
        EXPECT_TRUE((byte >= 0x20 && byte != 0x7f) || byte == '\t') << first << " " << second;
      }
    }
  }
}

TEST(ConsoleText, LineEndsOfATextStay) {
  EXPECT_EQ(clean_lines(""), "");
  EXPECT_EQ(clean_lines("one\x07\n\ntwo\rthree\n"), "one?\n\nthree\n");
  EXPECT_EQ(clean_lines("\nno end"), "\nno end");
}

TEST(ConsoleText, TextWithinALineIsPlainAndBounded) {
  EXPECT_EQ(plain_line("a\x1b[31mb\x1b[0m\nc\td\r", 99), "ab c d");
  EXPECT_EQ(plain_line("\x1b[8mhidden", 99), "hidden");
  EXPECT_EQ(plain_line("abcdef", 6), "abcdef");
  EXPECT_EQ(plain_line("abcdef", 5), "abcde...");
  EXPECT_EQ(plain_line("ab\xe2\x82\xac", 4), "ab...") << "between characters";
  EXPECT_EQ(plain_line("\x1b[31", 99), "");
  EXPECT_EQ(plain_line(std::string_view("\0\x07\xff", 3), 99), "??\xef\xbf\xbd");
}

}  // namespace
}  // namespace ddp::launcher
