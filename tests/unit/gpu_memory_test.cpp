// Row S5 of tests/fault/CASES.md: whom a round waits for, and for how long.
#include "launcher/plan/start/gpu_memory.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const GpuMemoryWait::Time kMemoryBegin{};
const std::vector<FormerWorker> kEnded{{4, 801}, {5, 802}};

TEST(GpuMemoryWait, FreeMemoryIsNotWaitedForNorSaid) {
  GpuMemoryWait wait(kEnded, kMemoryBegin);
  const auto decision = wait.note_holders({}, kMemoryBegin);
  EXPECT_FALSE(decision.waits);
  EXPECT_EQ(decision.line, "");
}

TEST(GpuMemoryWait, OtherJobsAreNotWaitedFor) {
  GpuMemoryWait wait(kEnded, kMemoryBegin);
  EXPECT_FALSE(wait.note_holders({{0, 80}, {1, 8010}}, kMemoryBegin).waits);
}

TEST(GpuMemoryWait, WorkersOfTheLastRoundAreNamedOnceAndWaitedFor) {
  GpuMemoryWait wait(kEnded, kMemoryBegin);
  const std::vector<GpuHolder> holders{{0, 801}, {0, 17}, {1, 802}};
  const auto first = wait.note_holders(holders, kMemoryBegin);
  EXPECT_TRUE(first.waits);
  EXPECT_THAT(first.line,
              AllOf(HasSubstr("at most 50 s: rank 4 (pid 801) on GPU 0, rank 5 (pid 802) on GPU 1"),
                    Not(HasSubstr("17"))));
  const auto second = wait.note_holders(holders, kMemoryBegin + 2s);
  EXPECT_TRUE(second.waits);
  EXPECT_EQ(second.line, "");
  const auto last = wait.note_holders({{0, 17}}, kMemoryBegin + 4s);
  EXPECT_FALSE(last.waits);
  EXPECT_FALSE(last.is_warning);
  EXPECT_THAT(last.line, HasSubstr("free after 4 s"));
}

TEST(GpuMemoryWait, S5_AtTheLimitTheHolderIsNamedAndTheRoundBegins) {
  GpuMemoryWait wait(kEnded, kMemoryBegin);
  EXPECT_TRUE(wait.note_holders({{2, 802}}, kMemoryBegin).waits);
  EXPECT_TRUE(wait.note_holders({{2, 802}}, kMemoryBegin + 49s).waits);
  const auto decision = wait.note_holders({{2, 802}}, kMemoryBegin + 50s);
  EXPECT_FALSE(decision.waits);
  EXPECT_TRUE(decision.is_warning);
  EXPECT_THAT(decision.line,
              HasSubstr("still not free after 50 s: rank 5 (pid 802) on GPU 2. The next round"));
}

}  // namespace
}  // namespace ddp::launcher
