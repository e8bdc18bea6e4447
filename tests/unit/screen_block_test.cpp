#include "launcher/plan/status/screen_block.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(ScreenBlock, StaysWithinTheTerminal) {
  const std::string text = "a long line\nb\nc\nd\n";
  EXPECT_EQ(fit_block(text, 80, 24), text);
  EXPECT_EQ(fit_block(text, 6, 24), "a long\nb\nc\nd\n");
  EXPECT_EQ(fit_block(text, 80, 5), text);
  EXPECT_EQ(fit_block(text, 80, 4), "a long line\nb\n... 2 more lines\n");
  EXPECT_EQ(fit_block(text, 80, 1), "... 4 more lines\n");
  EXPECT_EQ(fit_block("", 80, 24), "");
  EXPECT_EQ(fit_block("xä\n", 2, 24), "x\n");  // no half of a character
}

TEST(ScreenBlock, BlockIsDrawnOverTheLastOne) {
  EXPECT_EQ(redraw("a\nb\n", 0), "a\nb\n");
  EXPECT_EQ(redraw("c\n", 2), "\x1b[2A\r\x1b[Jc\n");
}

}  // namespace
}  // namespace ddp::launcher
