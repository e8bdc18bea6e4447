#include "launcher/plan/output/console_gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using Queues = ConsoleGate::Queues;
using Time = ConsoleGate::Time;

constexpr Time kGateBegin{1h};
constexpr std::size_t kFull = ConsoleGate::kConsoleBytes + 1;
constexpr std::size_t kFullFile = ConsoleGate::kFileBytes + 1;
constexpr auto kNone = std::nullopt;

const Queues kLogged{0, 0ns, 0};  // nothing waits, the lines are in a file
const Queues kBehind{kFull, 0ns, 0};

/// How many of `lines` are shown.
int shown(ConsoleGate& gate, int lines) {
  int all = 0;
  for (int i = 0; i < lines; ++i)
    all += gate.take_line() ? 1 : 0;
  return all;
}

TEST(ConsoleGate, StreamsWaitAndHideByTheirQueues) {
  struct Row {
    const char* what;
    bool is_shown;
    Queues queues;
    bool waits;
    bool shows;
  };
  const std::vector<Row> rows{
      {"all goes well, with a file", true, {0, 0ns, 0}, false, true},
      {"all goes well, without one", true, {0, 0ns, kNone}, false, true},
      {"just not behind", true, {kFull - 1, 0ns, 0}, false, true},
      {"the console is behind, a file has it", true, {kFull, 0ns, 0}, false, false},
      {"the console is behind, no file", true, {kFull, 999ms, kNone}, true, true},
      {"the console takes nothing, no file", true, {kFull, 1s, kNone}, false, false},
      {"the console takes nothing, a file has it", true, {kFull, 1s, 0}, false, false},
      {"it takes nothing, and little is queued", true, {1, 1h, kNone}, false, true},
      {"the disk is behind", true, {0, 0ns, kFullFile}, true, true},
      {"just not behind", true, {0, 0ns, kFullFile - 1}, false, true},
      {"both are behind", true, {kFull, 1s, kFullFile}, true, false},
      {"not on the console, which is behind", false, {kFull, 0ns, kNone}, false, true},
      {"not on the console, the disk is behind", false, {0, 0ns, kFullFile}, true, true},
  };
  for (const Row& row : rows) {
    ConsoleGate gate(row.is_shown, kNone);
    EXPECT_EQ(gate.must_wait(row.queues), row.waits) << row.what;
    gate.begin(row.queues, kGateBegin);
    EXPECT_EQ(gate.take_line(), row.shows) << row.what;
    EXPECT_EQ(gate.take_hidden().empty(), row.shows) << row.what;
  }
}

TEST(ConsoleGate, TheLimitIsThatOfTheUserOrOfATerminal) {
  EXPECT_EQ(console_limit(kNone, false), kNone);
  EXPECT_EQ(console_limit(kNone, true), 1000);
  EXPECT_EQ(console_limit(5, true), 5);
  EXPECT_EQ(console_limit(5, false), 5);
}

TEST(ConsoleGate, EachSecondHasItsOwnLines) {
  ConsoleGate gate(true, 3);
  gate.begin(kLogged, kGateBegin);
  EXPECT_EQ(shown(gate, 2), 2);
  gate.begin(kLogged, kGateBegin + 999ms);
  EXPECT_EQ(shown(gate, 4), 1);
  gate.begin(kLogged, kGateBegin + 1s);
  EXPECT_EQ(shown(gate, 4), 3);
}

TEST(ConsoleGate, AStreamWithoutAFileHasNoLimit) {
  ConsoleGate gate(true, 3);
  gate.begin({0, 0ns, kNone}, kGateBegin);
  EXPECT_EQ(shown(gate, 100), 100);
}

TEST(ConsoleGate, HiddenLinesAreSaidOnce) {
  ConsoleGate gate(true, kNone);
  gate.begin(kBehind, kGateBegin);
  EXPECT_EQ(shown(gate, 1), 0);
  EXPECT_EQ(gate.take_hidden(), "... 1 line is in the log file only");
  EXPECT_EQ(gate.take_hidden(), "");
  EXPECT_EQ(shown(gate, 3), 0);
  EXPECT_EQ(gate.take_hidden(), "... 3 lines are in the log file only");
  const Queues stuck{kFull, 1s, kNone};
  gate.begin(stuck, kGateBegin);
  EXPECT_EQ(shown(gate, 1), 0);
  EXPECT_EQ(gate.take_hidden(), "... 1 line was dropped: the console takes nothing");
  EXPECT_EQ(shown(gate, 2), 0);
  EXPECT_EQ(gate.take_hidden(), "... 2 lines were dropped: the console takes nothing");
}

TEST(ConsoleGate, HiddenLinesAreSaidWhenTheConsoleHasCaughtUpAndTheSecondIsOver) {
  ConsoleGate gate(true, 1);
  gate.begin(kLogged, kGateBegin);
  EXPECT_EQ(gate.next_look(), kNone);
  EXPECT_EQ(shown(gate, 2), 1);
  EXPECT_EQ(gate.next_look(), kGateBegin + ConsoleGate::kPollInterval);
  EXPECT_FALSE(gate.take_due(kLogged, 0, kGateBegin + 999ms).hidden);
  EXPECT_FALSE(gate.take_due(kBehind, 0, kGateBegin + 1s).hidden);
  EXPECT_EQ(gate.next_look(), kGateBegin + 1s + ConsoleGate::kPollInterval);
  EXPECT_TRUE(gate.take_due(kLogged, 0, kGateBegin + 1s).hidden);
  EXPECT_NE(gate.take_hidden(), "");
  EXPECT_EQ(gate.next_look(), kNone);
}

TEST(ConsoleGate, ABarIsShownEveryFiveSecondsWhenItHasMoved) {
  struct Row {
    std::chrono::milliseconds at;
    std::uint64_t bytes;
    Queues queues;
    bool shows;
    std::chrono::milliseconds next;
  };
  const std::vector<Row> rows{
      {4999ms, 10, kLogged, false, 5s},  // it has begun at 0
      {5s, 10, kLogged, true, 10s},
      {9s, 20, kLogged, false, 10s},
      {10s, 20, kLogged, true, 15s},
      {15s, 20, kLogged, false, 20s},  // nothing new
      {20s, 30, kBehind, false, 25s},
      {25s, 31, kLogged, true, 30s},
  };
  ConsoleGate gate(true, kNone);
  gate.begin(kLogged, kGateBegin);
  gate.note_bar(true);
  for (const Row& row : rows) {
    EXPECT_EQ(gate.take_due(row.queues, row.bytes, kGateBegin + row.at).unfinished, row.shows)
        << row.at.count();
    EXPECT_EQ(gate.next_look(), kGateBegin + row.next) << row.at.count();
    gate.note_bar(true);  // the same one: its time goes on
  }
  gate.note_bar(false);
  EXPECT_EQ(gate.next_look(), kNone);
}

TEST(ConsoleGate, APartIsShownOnceItHasStoodAndThenLikeABar) {
  ConsoleGate gate(true, kNone);
  gate.begin(kLogged, kGateBegin);
  gate.note_part(true);
  EXPECT_EQ(gate.next_look(), kGateBegin + 100ms);
  gate.begin(kLogged, kGateBegin + 60ms);
  gate.note_part(false);  // it has grown
  EXPECT_EQ(gate.next_look(), kGateBegin + 100ms);
  gate.begin(kLogged, kGateBegin + 70ms);
  gate.note_part(true);  // its line has ended, and another one has begun
  EXPECT_FALSE(gate.take_due(kLogged, 9, kGateBegin + 169ms).unfinished);
  EXPECT_TRUE(gate.take_due(kLogged, 9, kGateBegin + 170ms).unfinished);
  EXPECT_EQ(gate.next_look(), kGateBegin + 170ms + ConsoleGate::kBarPause);
  EXPECT_FALSE(gate.take_due(kLogged, 9, kGateBegin + 6s).unfinished);  // nothing new
}

TEST(ConsoleGate, TheNextLookIsForWhateverComesFirst) {
  ConsoleGate gate(true, kNone);
  gate.begin(kBehind, kGateBegin);
  gate.note_bar(true);
  EXPECT_EQ(shown(gate, 1), 0);
  EXPECT_EQ(gate.next_look(), kGateBegin + ConsoleGate::kPollInterval);
  (void)gate.take_due(kBehind, 0, kGateBegin + 4990ms);
  EXPECT_EQ(gate.next_look(), kGateBegin + ConsoleGate::kBarPause);
  ConsoleGate in_place(true, kNone, ConsoleGate::kBarPauseInPlace);
  in_place.begin(kLogged, kGateBegin);
  in_place.note_bar(true);
  EXPECT_EQ(in_place.next_look(), kGateBegin + 100ms);
}

}  // namespace
}  // namespace ddp::launcher
