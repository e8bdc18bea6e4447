#include "launcher/plan/round/clock_offset.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(ClockOffset, OffsetAssumesEqualTimesBothWays) {
  ClockOffset clock;
  EXPECT_EQ(clock.to_ours(5), std::nullopt);
  // Theirs is 1000 ahead; 10 each way, 100 kept in between.
  clock.note(500, 620, 100, 1610);
  EXPECT_EQ(clock.to_ours(1610), 610);
}

TEST(ClockOffset, TheShortestWayCounts) {
  ClockOffset clock;
  clock.note(500, 520, 0, 1510);
  clock.note(600, 700, 0, 1690);  // slow on the way there
  EXPECT_EQ(clock.to_ours(1510), 510);
  clock.note(800, 802, 0, 1801);
  EXPECT_EQ(clock.to_ours(1801), 801);
}

TEST(ClockOffset, AnOldAnswerIsForgotten) {
  ClockOffset clock;
  clock.note(500, 502, 0, 1501);
  const std::int64_t later = 2 * ClockOffset::kForgetAfter.count();
  clock.note(later, later + 100, 0, later + 3050);
  EXPECT_EQ(clock.to_ours(later + 3050), later + 50);
}

TEST(ClockOffset, AnswersToNothingSayNothing) {
  ClockOffset clock;
  clock.note(0, 10, 0, 5);
  clock.note(20, 10, 0, 5);
  EXPECT_EQ(clock.to_ours(5), std::nullopt);
}

TEST(ClockOffset, ANodesTimesAreToldByTheBestClockThatIsKnown) {
  using namespace std::chrono_literals;
  const std::chrono::steady_clock::time_point begin{1000ns};
  const GroupBegin told{6150, begin + 180ns};  // it began 150 after us, and is 5000 ahead
  ClockOffset answered;
  answered.note(900, 902, 0, 5901);
  struct Row {
    const char* what;
    ClockOffset clock;
    GroupBegin group;
    bool is_own;
    std::chrono::nanoseconds since;
  };
  for (const Row& row : {
           Row{"nothing was told", answered, GroupBegin(), false, 0ns},
           Row{"our own clock", ClockOffset(), GroupBegin{1150, begin + 180ns}, true, 150ns},
           Row{"by the offset", answered, told, false, 150ns},
           Row{"when it told", ClockOffset(), told, false, 180ns},
       })
    EXPECT_EQ(row.clock.offset_in_round(begin, row.group, row.is_own), row.since) << row.what;
}

}  // namespace
}  // namespace ddp::launcher
