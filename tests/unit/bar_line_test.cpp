#include "launcher/plan/output/bar_line.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ddp::launcher {
namespace {

TEST(BarLine, TheNewestStateIsShown) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", ""},
      {"a line that is not whole", ""},
      {"\r 10%|#   | [1it/s]", " 10%|#   | [1it/s]"},
      {"\r 10%| [1it/s]\r 20%| [1it/s]", " 20%| [1it/s]"},
      {"10%\r20%\r", "20%"},                        // the return behind each state
      {"\r 10%| [1it/s]\r                \r", ""},  // wiped out
      {"\r 10%| [1it/s]\x1b[A", " 10%| [1it/s]"},
      {"\r\x1b[2J\a 10%", "? 10%"},
  };
  for (const auto& [pending, state] : rows)
    EXPECT_EQ(bar_state(pending), state) << pending;
}

TEST(BarLine, TextPrintedOntoABarIsText) {
  const std::vector<std::pair<std::string, BarLine>> rows{
      {"a line", BarLine::text},
      {"a line of Windows\r", BarLine::text},
      {"\ra line", BarLine::text},
      {"\r 10%|# | [1it/s]\r100%|##| [2.5it/s]", BarLine::end},
      {"\r 99%  12.3M/s\r100%  9.25M/s\r", BarLine::end},
      // A traceback, a warning, a text of tqdm.write().
      {"\r 10%|# | [1it/s]\r 20%|# | [1it/s]Traceback (most recent call last):", BarLine::text},
      {"\r 10%|# | [1it/s]\r                \ra line [1it/s]", BarLine::text},
      {"\r 10%|# | [1it/s]\x1b[A", BarLine::below},
      {"\x1b[A", BarLine::below},
      {"\x1b[A\r 20%|# | [1it/s]", BarLine::end},
      {"\x1b[AWARNING: a line", BarLine::text},
      {"\r 10%|# | [1it/s]\x1b[A\r          \ra line", BarLine::text},
  };
  for (const auto& [line, kind] : rows)
    EXPECT_EQ(bar_line(line), kind) << line;
}

TEST(BarLine, LastTwoStatesOfALongBarAreKept) {
  std::string pending;
  std::size_t longest = 0;
  for (int i = 0; i < 1000; ++i) {
    pending += "\r" + std::to_string(i) + " of 1000 [it/s]";
    pending.erase(0, old_states(pending));
    longest = std::max(longest, pending.size());
  }
  EXPECT_LT(longest, 50U);
  EXPECT_EQ(pending, "\r998 of 1000 [it/s]\r999 of 1000 [it/s]");
  EXPECT_EQ(bar_line(pending), BarLine::end);
  EXPECT_EQ(old_states(""), 0U);
  EXPECT_EQ(old_states("\r"), 0U);
  EXPECT_EQ(old_states("\rone"), 0U);
  EXPECT_EQ(old_states("one\rtwo\r"), 0U);
}

}  // namespace
}  // namespace ddp::launcher
