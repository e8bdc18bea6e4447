#include "launcher/plan/watchdog.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

WorkerSample page_worker(int rank, std::int64_t step, Phase phase = Phase::training) {
  WorkerSample sample;
  sample.rank = rank;
  sample.has_page = true;
  sample.phase = phase;
  sample.step = step;
  sample.written_ns = step;
  sample.state = 'S';
  return sample;
}

WorkerSample foreign(int rank, std::uint64_t ticks, char state = 'S') {
  WorkerSample sample;
  sample.rank = rank;
  sample.cpu_ticks = ticks;
  sample.state = state;
  return sample;
}

std::optional<Finding> end_of(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.ends_job) return finding;
  }
  return std::nullopt;
}

/// Looks once a second at the same samples; returns the second in which the job was ended.
std::optional<std::pair<int, Finding>> watch(Watchdog& dog,
                                             const std::vector<WorkerSample>& samples,
                                             int from,
                                             int to) {
  for (int second = from; second <= to; ++second) {
    if (auto end = end_of(dog.look(std::chrono::seconds(second), samples)))
      return std::pair(second, *end);
  }
  return std::nullopt;
}

TEST(Watchdog, AWorkerWithoutAStepForTheUsersTimeIsNamedWithItsPhase) {
  Watchdog dog(WatchLimits{5s, false});
  const auto end = watch(dog, {page_worker(0, 7), page_worker(1, 6)}, 0, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 5);
  EXPECT_EQ(end->second.rank, 1);  // the one that is behind
  EXPECT_EQ(end->second.text, "made no step for 5 s, phase training, step 6; it is in state S");
}

TEST(Watchdog, AStoppedWorkerIsTheCauseNotThoseThatWait) {
  Watchdog dog(WatchLimits{5s, false});
  WorkerSample stopped = page_worker(1, 8);
  stopped.state = 'T';
  const auto end = watch(dog, {page_worker(0, 7), stopped, page_worker(2, 7)}, 0, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->second.rank, 1);
  EXPECT_THAT(end->second.text, HasSubstr("is stopped (state T)"));
}

TEST(Watchdog, AStoppedWorkerIsNamedOnceEachTime) {
  Watchdog dog(WatchLimits{});
  const std::vector<WorkerSample> stopped{foreign(0, 1), foreign(1, 1, 'T')};
  EXPECT_THAT(dog.look(0s, stopped), IsEmpty());
  EXPECT_THAT(dog.look(2s, stopped), IsEmpty());
  EXPECT_THAT(dog.frozen(), IsEmpty());
  EXPECT_THAT(dog.look(3s, stopped), ElementsAre(Finding{false, 1, "is stopped (state T)"}));
  EXPECT_THAT(dog.look(4s, stopped), IsEmpty());
  EXPECT_THAT(dog.frozen(), ElementsAre(1));
  EXPECT_THAT(dog.look(5s, std::vector{foreign(0, 2), foreign(1, 2)}), IsEmpty());
  EXPECT_THAT(dog.frozen(), IsEmpty());
  EXPECT_THAT(dog.look(6s, stopped), IsEmpty());
  EXPECT_EQ(dog.look(9s, stopped).size(), 1U);
}

TEST(Watchdog, WithoutALimitAForeignProgramMaySleepForEver) {
  Watchdog dog(WatchLimits{});
  EXPECT_FALSE(watch(dog, {foreign(0, 1), foreign(1, 1)}, 0, 100000));
}

TEST(Watchdog, ForeignProgramsHangWhenNoneRunsOrPrints) {
  Watchdog dog(WatchLimits{5s, false});
  EXPECT_FALSE(watch(dog, {foreign(0, 1), foreign(1, 1)}, 0, 4));
  EXPECT_FALSE(watch(dog, {foreign(0, 2), foreign(1, 1)}, 5, 9));  // rank 0 ran in second 5
  const auto end = watch(dog, {foreign(0, 2), foreign(1, 1)}, 10, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 10);
  EXPECT_EQ(end->second.rank, 1);
  EXPECT_THAT(end->second.text, HasSubstr("neither ran nor printed for 10 s"));
}

TEST(Watchdog, AZombieHasEndedAndHangsNoMore) {
  Watchdog dog(WatchLimits{5s, false});
  EXPECT_FALSE(watch(dog, {foreign(0, 1, 'Z')}, 0, 100));
}

TEST(Watchdog, OutputIsASignOfLife) {
  Watchdog dog(WatchLimits{5s, false});
  WorkerSample sample = foreign(0, 1);
  for (int second = 0; second < 30; ++second) {
    sample.output_bytes += 1;
    EXPECT_THAT(dog.look(std::chrono::seconds(second), std::vector{sample}), IsEmpty());
  }
}

TEST(Watchdog, WritingThePageIsProgressWithoutAStep) {
  Watchdog dog(WatchLimits{5s, false});
  WorkerSample sample = page_worker(0, 3, Phase::evaluating);
  for (int second = 0; second < 30; ++second) {
    ++sample.written_ns;
    EXPECT_THAT(dog.look(std::chrono::seconds(second), std::vector{sample}), IsEmpty());
  }
}

TEST(Watchdog, BeforeTrainingAndAfterItNothingCounts) {
  for (const Phase phase : {Phase::starting, Phase::joining, Phase::finished}) {
    Watchdog dog(WatchLimits{5s, false});
    EXPECT_FALSE(watch(dog, {page_worker(0, 3, phase)}, 0, 100)) << to_text(phase);
  }
}

TEST(Watchdog, OurOwnWorkersLimitIsTenTimesItsSlowStepsAndAtLeastAMinute) {
  Watchdog fast(WatchLimits{std::nullopt, true});
  Watchdog slow(WatchLimits{std::nullopt, true});
  for (int second = 0; second < 300; ++second) {
    const auto now = std::chrono::seconds(second);
    EXPECT_THAT(fast.look(now, std::vector{page_worker(0, 50 * second)}), IsEmpty());
    EXPECT_THAT(slow.look(now, std::vector{page_worker(0, second / 10)}), IsEmpty());
  }
  const auto fast_end = watch(fast, {page_worker(0, 50 * 299)}, 300, 1000);
  ASSERT_TRUE(fast_end);
  EXPECT_EQ(fast_end->first, 299 + 60);
  const auto slow_end = watch(slow, {page_worker(0, 29)}, 300, 1000);
  ASSERT_TRUE(slow_end);
  EXPECT_EQ(slow_end->first, 290 + 100);
}

TEST(Watchdog, WithoutAStepThereIsNoAutomaticLimitAndAfterTheFirstOneThereIs) {
  Watchdog dog(WatchLimits{std::nullopt, true});
  EXPECT_FALSE(watch(dog, {page_worker(0, 0)}, 0, 9));
  const auto end = watch(dog, {page_worker(0, 1)}, 10, 1000);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 10 + 100);
}

TEST(Watchdog, SavingIsAsSlowAsItsDisk) {
  Watchdog dog(WatchLimits{std::nullopt, true});
  EXPECT_FALSE(watch(dog, {page_worker(0, 0)}, 0, 9));
  EXPECT_FALSE(watch(dog, {page_worker(0, 1, Phase::saving)}, 10, 10000));
}

TEST(Watchdog, WhoLeftIsTheCauseWhenAnotherWaitsInTheStoreForNobodysKey) {
  Watchdog dog(WatchLimits{});
  WorkerSample leaver = foreign(0, 1);
  leaver.alive = false;
  leaver.ended_well = true;
  leaver.ended_at = 5s;
  leaver.joined_store = true;
  WorkerSample waiter = foreign(1, 1);
  waiter.waits_since = 2s;
  EXPECT_FALSE(watch(dog, {leaver, waiter}, 6, 14));
  const auto end = watch(dog, {leaver, waiter}, 15, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 15);
  EXPECT_EQ(end->second.rank, 0);
  EXPECT_THAT(end->second.text,
              AllOf(HasSubstr("left with exit code 0"), HasSubstr("rank 1 has waited 10 s")));
}

TEST(Watchdog, ALeaverThatWasNeverInTheStoreHarmsNobody) {
  Watchdog dog(WatchLimits{});
  WorkerSample leaver = foreign(0, 1);
  leaver.alive = false;
  leaver.ended_well = true;
  WorkerSample waiter = foreign(1, 1);
  waiter.waits_since = 0s;
  EXPECT_FALSE(watch(dog, {leaver, waiter}, 0, 1000));
}

}  // namespace
}  // namespace ddp::launcher
