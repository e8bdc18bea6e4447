#include "worker/plan/missed_saves.h"

#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MissedSaves::Time kBegin{};

TEST(MissedSaves, ADiskThatIsFullForSomeSecondsEndsNothing) {
  MissedSaves missed;
  for (int i = 0; i < 500; ++i)
    EXPECT_FALSE(missed.add(kBegin + milliseconds(100 * i))) << i;
  EXPECT_EQ(missed.count(), 500);
}

TEST(MissedSaves, FiveInARowAndAMinuteDo) {
  MissedSaves missed;
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(missed.add(kBegin + seconds(20 * i))) << i;
  EXPECT_TRUE(missed.add(kBegin + seconds(80)));

  MissedSaves many;
  for (int i = 0; i < 60; ++i)
    EXPECT_FALSE(many.add(kBegin + seconds(i))) << i;
  EXPECT_TRUE(many.add(kBegin + seconds(60)));
}

TEST(MissedSaves, FourInAnHourDoNot) {
  MissedSaves missed;
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(missed.add(kBegin + seconds(900 * i))) << i;
}

TEST(MissedSaves, OneThatSucceedsBeginsAnew) {
  MissedSaves missed;
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(missed.add(kBegin + seconds(20 * i)));
  missed.clear();
  EXPECT_EQ(missed.count(), 0);
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(missed.add(kBegin + seconds(100 + 20 * i)));
  EXPECT_TRUE(missed.add(kBegin + seconds(180)));
}

}  // namespace
}  // namespace ddp::worker
