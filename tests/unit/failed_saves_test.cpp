#include "worker/plan/failed_saves.h"

#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr FailedSaves::Time kBegin{};

TEST(FailedSaves, ADiskThatIsFullForSomeSecondsEndsNothing) {
  FailedSaves saves;
  for (int i = 0; i < 500; ++i)
    EXPECT_FALSE(saves.add_failure(kBegin + milliseconds(100 * i))) << i;
  EXPECT_EQ(saves.count(), 500);
}

TEST(FailedSaves, FiveInARowAndAMinuteDo) {
  FailedSaves saves;
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(saves.add_failure(kBegin + seconds(20 * i))) << i;
  EXPECT_TRUE(saves.add_failure(kBegin + seconds(80)));

  FailedSaves longer;
  for (int i = 0; i < 60; ++i)
    EXPECT_FALSE(longer.add_failure(kBegin + seconds(i))) << i;
  EXPECT_TRUE(longer.add_failure(kBegin + seconds(60)));
}

TEST(FailedSaves, FourInAnHourDoNot) {
  FailedSaves saves;
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(saves.add_failure(kBegin + seconds(900 * i))) << i;
}

TEST(FailedSaves, SuccessfulSaveResetsTheCount) {
  FailedSaves saves;
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(saves.add_failure(kBegin + seconds(20 * i)));
  saves.clear();
  EXPECT_EQ(saves.count(), 0);
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(saves.add_failure(kBegin + seconds(100 + 20 * i)));
  EXPECT_TRUE(saves.add_failure(kBegin + seconds(180)));
}

}  // namespace
}  // namespace ddp::worker
