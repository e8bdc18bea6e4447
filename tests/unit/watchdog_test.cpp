#include "launcher/plan/hang/watchdog.h"

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
  sample.activity.state = 'S';
  return sample;
}

WorkerSample external(int rank, std::uint64_t ticks, char state = 'S') {
  WorkerSample sample;
  sample.rank = rank;
  sample.activity.main_ticks = sample.activity.ticks = ticks;
  sample.activity.state = state;
  return sample;
}

WorkerSample waiting(int rank, const std::string& where) {
  WorkerSample sample = external(rank, 1);
  sample.activity.waits_in = where;
  return sample;
}

std::optional<Finding> end_of(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.ends_round) return finding;
  }
  return std::nullopt;
}

/// Looks once a second at the same samples; returns the second in which the job was ended.
std::optional<std::pair<int, Finding>> watch(Watchdog& dog,
                                             const std::vector<WorkerSample>& samples,
                                             int from,
                                             int to) {
  for (int second = from; second <= to; ++second) {
    if (auto end = end_of(dog.note_samples(std::chrono::seconds(second), samples)))
      return std::pair(second, *end);
  }
  return std::nullopt;
}

TEST(Watchdog, AWorkerWithoutAStepForTheUsersTimeIsNamedWithItsPhase) {
  Watchdog dog(WatchLimits{5s});
  const auto end = watch(dog, {page_worker(0, 7), page_worker(1, 6)}, 0, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 5);
  EXPECT_EQ(end->second.rank, 1);  // the one that is behind
  EXPECT_EQ(end->second.text, "made no step for 5 s, phase training, step 6; it is in state S");
}

TEST(Watchdog, AStoppedWorkerIsTheCauseNotThoseThatWait) {
  Watchdog dog(WatchLimits{5s});
  WorkerSample stopped = page_worker(1, 8);
  stopped.activity.state = 'T';
  const auto end = watch(dog, {page_worker(0, 7), stopped, page_worker(2, 7)}, 0, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->second.rank, 1);
  EXPECT_THAT(end->second.text, HasSubstr("is stopped (state T)"));
}

TEST(Watchdog, AStoppedWorkerIsNamedOnceEachTime) {
  Watchdog dog(WatchLimits{});
  const std::vector<WorkerSample> stopped{external(0, 1), external(1, 1, 'T')};
  EXPECT_THAT(dog.note_samples(0s, stopped), IsEmpty());
  EXPECT_THAT(dog.note_samples(2s, stopped), IsEmpty());
  EXPECT_THAT(dog.frozen(), IsEmpty());
  EXPECT_THAT(dog.frozen(0s), ElementsAre(1));  // what a peer that gave up by 124 has seen
  EXPECT_THAT(dog.note_samples(3s, stopped),
              ElementsAre(Finding{false, 1, "is stopped (state T)"}));
  EXPECT_THAT(dog.note_samples(4s, stopped), IsEmpty());
  EXPECT_THAT(dog.frozen(), ElementsAre(1));
  EXPECT_THAT(dog.note_samples(5s, std::vector{external(0, 2), external(1, 2)}), IsEmpty());
  EXPECT_THAT(dog.frozen(), IsEmpty());
  EXPECT_THAT(dog.note_samples(6s, stopped), IsEmpty());
  EXPECT_EQ(dog.note_samples(9s, stopped).size(), 1U);
}

TEST(Watchdog, WithoutALimitAnExternalProgramMaySleepForEver) {
  Watchdog dog(WatchLimits{});
  EXPECT_FALSE(watch(dog, {external(0, 1), external(1, 1)}, 0, 100000));
}

TEST(Watchdog, ExternalProgramsHangWhenNoneRunsOrPrints) {
  Watchdog dog(WatchLimits{5s});
  EXPECT_FALSE(watch(dog, {external(0, 1), external(1, 1)}, 0, 4));
  EXPECT_FALSE(watch(dog, {external(0, 50), external(1, 1)}, 5, 9));  // rank 0 ran in second 5
  const auto end = watch(dog, {external(0, 50), external(1, 1)}, 10, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 10);
  EXPECT_EQ(end->second.rank, 1);
  EXPECT_THAT(end->second.text, HasSubstr("neither ran nor printed for 10 s"));
}

TEST(Watchdog, ATickNowAndThenIsNoProgressAndACoreIs) {
  Watchdog dog(WatchLimits{10s});
  std::optional<Finding> end;
  for (int second = 0; second < 100 && !end; ++second) {
    WorkerSample busy = external(0, 100U * static_cast<unsigned>(std::min(second, 60)));
    WorkerSample waiting = external(1, 0);
    waiting.activity.ticks = static_cast<unsigned>(second / 2);  // 0.5 % of a core: Gloo's threads
    busy.activity.ticks += waiting.activity.ticks;
    busy.activity.minor_faults = 1000U * static_cast<unsigned>(second);
    end = end_of(dog.note_samples(std::chrono::seconds(second), std::vector{busy, waiting}));
    EXPECT_EQ(end.has_value(), second == 70) << second;
  }
}

TEST(Watchdog, AFewPerCentOfMonitorsAreNoProgressAndALoaderIs) {
  for (const auto& [per_second, hangs] : {std::pair(7, true), std::pair(50, false)}) {
    Watchdog dog(WatchLimits{10s});
    bool hung = false;
    for (int second = 0; second < 60; ++second) {
      WorkerSample sample = external(0, 0);
      sample.activity.ticks = static_cast<unsigned>(per_second * second);
      hung = hung || end_of(dog.note_samples(std::chrono::seconds(second), std::vector{sample}));
    }
    EXPECT_EQ(hung, hangs) << per_second;
  }
}

TEST(Watchdog, ARankThatWaitsForTheCpuDoesNotHang) {
  Watchdog dog(WatchLimits{5s});
  EXPECT_FALSE(watch(dog, {external(0, 1, 'R'), external(1, 1)}, 0, 100));
}

TEST(Watchdog, ReadOrWrittenBytesAreProgress) {
  Watchdog dog(WatchLimits{10s});
  for (int second = 0; second < 60; ++second) {
    WorkerSample sample = external(0, 0);
    sample.activity.io_bytes = 100'000U * static_cast<unsigned>(second);
    EXPECT_THAT(dog.note_samples(std::chrono::seconds(second), std::vector{sample, external(1, 0)}),
                IsEmpty());
  }
}

TEST(Watchdog, AKeySetInTheStoreIsProgress) {
  Watchdog dog(WatchLimits{5s});
  WorkerSample sample = external(0, 1);
  for (int second = 0; second < 30; ++second) {
    ++sample.store_writes;
    EXPECT_THAT(dog.note_samples(std::chrono::seconds(second), std::vector{sample}), IsEmpty());
  }
}

TEST(Watchdog, ASlowDiskHasTenTimesTheLimit) {
  Watchdog dog(WatchLimits{5s});
  WorkerSample on_disk = external(0, 1, 'D');
  std::optional<Finding> end;
  int second = 0;
  for (; second < 100 && !end; ++second)
    end = end_of(
        dog.note_samples(std::chrono::seconds(second), std::vector{on_disk, external(1, 1)}));
  EXPECT_EQ(second - 1, 50);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->rank, 0);
}

WorkerSample held(int rank, const std::string& where) {
  WorkerSample sample = external(rank, 1, 'D');
  sample.activity.waits_in = where;
  return sample;
}

TEST(Watchdog, AnUninterruptibleSleepBeyondItsLimitEndsTheJobAndNamesWhereItWaits) {
  Watchdog dog(WatchLimits{std::nullopt, 5s});
  const std::vector<WorkerSample> samples{external(0, 1), held(1, "nfs_wait_bit_killable")};
  EXPECT_FALSE(watch(dog, samples, 0, 4));
  const auto end = watch(dog, samples, 5, 5);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->second.rank, 1);
  EXPECT_EQ(end->second.text,
            "is in an uninterruptible sleep (state D) in nfs_wait_bit_killable, for 5 s (the limit "
            "is TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT)");
  EXPECT_TRUE(end->second.is_final);
  EXPECT_FALSE(end->second.is_guess);
}

TEST(Watchdog, WithoutALimitAnUninterruptibleSleepIsAWarningAlone) {
  Watchdog dog(WatchLimits{});
  std::vector<Finding> all;
  for (int second = 0; second < 1000; ++second) {
    const auto found = dog.note_samples(std::chrono::seconds(second), std::vector{held(0, "x")});
    all.insert(all.end(), found.begin(), found.end());
  }
  EXPECT_THAT(all, ElementsAre(Finding{false, 0, "is in an uninterruptible sleep (state D) in x"}));
}

TEST(Watchdog, ManyShortUninterruptibleSleepsAreNoLongOne) {
  Watchdog dog(WatchLimits{std::nullopt, 5s});
  for (int second = 0; second < 60; ++second) {
    WorkerSample reads = held(0, second % 4 == 0 ? "folio_wait_bit" : "rq_qos_wait");
    WorkerSample prints = held(1, "folio_wait_bit");
    prints.output_bytes = static_cast<std::uint64_t>(second) / 4;
    WorkerSample wakes = held(2, "folio_wait_bit");
    if (second % 4 == 0) wakes.activity.state = 'R';
    const std::vector<WorkerSample> samples{reads, prints, wakes};
    EXPECT_FALSE(end_of(dog.note_samples(std::chrono::seconds(second), samples))) << second;
  }
  EXPECT_FALSE(watch(dog, {held(0, "x")}, 1000, 1000)) << "after a time without samples";
}

TEST(Watchdog, ARankThatComesBackFromADiskHasTheWholeLimit) {
  Watchdog dog(WatchLimits{10s});
  EXPECT_FALSE(watch(dog, {external(0, 1, 'D'), waiting(1, "futex_do_wait")}, 0, 30));
  const auto end = watch(dog, {waiting(0, "do_poll"), waiting(1, "futex_do_wait")}, 31, 100);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 41);
}

TEST(Watchdog, ARankWithoutAPageMayBeToBlameForOneThatHasIt) {
  Watchdog dog(WatchLimits{5s});
  WorkerSample first = page_worker(0, 7);
  first.activity.waits_in = "futex_do_wait";
  const auto end = watch(dog, {first, waiting(1, "hrtimer_nanosleep")}, 0, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->second.rank, 1);
  EXPECT_TRUE(end->second.is_guess) << "its stack may say more";
  Watchdog other(WatchLimits{5s});
  first.activity.waits_in = "hrtimer_nanosleep";
  const auto its_own = watch(other, {first, waiting(1, "do_epoll_wait")}, 0, 20);
  ASSERT_TRUE(its_own);
  EXPECT_EQ(its_own->second.rank, 0);
}

/// Rank 0 runs all the time, rank 1 sleeps or waits.
std::optional<Finding> watch_a_runner(const std::string& waits_in,
                                      unsigned faults_per_second,
                                      unsigned naps_per_second = 0) {
  Watchdog dog(WatchLimits{10s});
  for (unsigned second = 0; second < 60; ++second) {
    WorkerSample runner = external(0, 100 * second, 'R');
    runner.activity.minor_faults = faults_per_second * second;
    WorkerSample other = external(1, 0);
    other.activity.waits_in = waits_in;
    other.activity.voluntary_switches = naps_per_second * second;
    if (auto end =
            end_of(dog.note_samples(std::chrono::seconds(second), std::vector{runner, other})))
      return end;
  }
  return std::nullopt;
}

TEST(Watchdog, AWaitInALoopIsNoProgressWhileAnotherRankSleeps) {
  const auto end = watch_a_runner("hrtimer_nanosleep", 0);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->rank, 1);
  EXPECT_FALSE(watch_a_runner("hrtimer_nanosleep", 1000)) << "it computes: memory is new to it";
  EXPECT_FALSE(watch_a_runner("futex_do_wait", 0)) << "the other may wait for what it computes";
  EXPECT_FALSE(watch_a_runner("hrtimer_nanosleep", 0, 1)) << "it looks whether something has come";
}

std::optional<Finding> judge_waits(const std::vector<WorkerSample>& samples) {
  Watchdog dog(WatchLimits{5s});
  const auto end = watch(dog, samples, 0, 20);
  return end ? std::optional(end->second) : std::nullopt;
}

TEST(Watchdog, ARankThatWaitsElsewhereThanTheMajorityIsTheCause) {
  const auto end = judge_waits({waiting(0, "futex_do_wait"),
                                waiting(1, "futex_do_wait"),
                                waiting(2, "poll_schedule_timeout"),
                                waiting(3, "futex_do_wait")});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->rank, 2);
  EXPECT_FALSE(end->is_guess);
  EXPECT_THAT(end->text, HasSubstr("in state S in poll_schedule_timeout"));
}

TEST(Watchdog, SleepingRankIsTheCauseRatherThanOneInAFutexOrSocket) {
  for (const std::string peers : {"futex_do_wait", "sk_wait_data", "futex_wait_queue"}) {
    for (const std::string elsewhere : {"hrtimer_nanosleep", "anon_pipe_read", "do_wait"}) {
      const auto end = judge_waits({waiting(0, peers), waiting(1, elsewhere)});
      ASSERT_TRUE(end);
      EXPECT_EQ(end->rank, 1) << peers << " " << elsewhere;
      EXPECT_FALSE(end->is_guess);
    }
  }
}

TEST(Watchdog, ARankThatWaitsInOurStoreWaitsForPeers) {
  WorkerSample in_store = waiting(0, "poll_schedule_timeout");
  in_store.waits_since = 0s;
  const auto end = judge_waits({in_store, waiting(1, "poll_schedule_timeout")});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->rank, 1);
}

TEST(Watchdog, EqualWaitsGiveAGuessThatStacksMustSettle) {
  const auto end = judge_waits({waiting(0, "futex_do_wait"), waiting(1, "futex_do_wait")});
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->is_guess);
  EXPECT_THAT(end->text, HasSubstr("others wait in the same way"));
}

TEST(Watchdog, ARankOutsideOfACollectiveIsTheCauseThoughItIsNotBehind) {
  Watchdog dog(WatchLimits{5s});
  WorkerSample inside = page_worker(0, 7, Phase::backward);
  inside.in_collective = true;
  const auto end = watch(dog, {inside, page_worker(1, 7, Phase::forward), inside}, 0, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->second.rank, 1);
  EXPECT_FALSE(end->second.is_guess);
  EXPECT_EQ(end->second.text,
            "made no step for 5 s, phase forward, step 7; it is in state S, outside of the "
            "collective that others are in");
}

TEST(Watchdog, ARankThatWaitsInACollectiveForOneThatGoesOnDoesNotHang) {
  WorkerSample inside = page_worker(1, 7);
  inside.in_collective = true;
  for (const Phase phase : {Phase::evaluating, Phase::training}) {
    Watchdog dog(WatchLimits{5s});
    WorkerSample busy = page_worker(0, 7, phase);
    for (int second = 0; second < 60; ++second) {
      ++busy.written_ns;
      EXPECT_THAT(dog.note_samples(std::chrono::seconds(second), std::vector{busy, inside}),
                  IsEmpty());
    }
    // It stops, too.
    const auto end = watch(dog, {busy, inside}, 60, 100);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->second.rank, 0);
  }
}

TEST(Watchdog, ARankThatWaitsUnmarkedForOneThatEvaluatesOrSavesDoesNotHang) {
  Watchdog dog(WatchLimits{});
  EXPECT_FALSE(watch(dog, {page_worker(0, 0), page_worker(1, 0)}, 0, 1));
  EXPECT_FALSE(watch(dog, {page_worker(0, 1, Phase::saving), page_worker(1, 1)}, 2, 1000));
}

TEST(Watchdog, ARankThatStopsWhileOthersStepOnHangsByItself) {
  Watchdog dog(WatchLimits{5s});
  std::optional<Finding> end;
  for (int second = 0; second < 20 && !end; ++second)
    end = end_of(dog.note_samples(std::chrono::seconds(second),
                                  std::vector{page_worker(0, 100 + second), page_worker(1, 200)}));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->rank, 1);
}

TEST(Watchdog, ARankThatWaitedForAnEndedOneHasTheWholeLimit) {
  Watchdog dog(WatchLimits{5s});
  for (int second = 0; second < 10; ++second) {
    const auto ticks = 100U * static_cast<unsigned>(second);
    EXPECT_THAT(dog.note_samples(std::chrono::seconds(second),
                                 std::vector{external(0, ticks), external(1, 0)}),
                IsEmpty());
  }
  WorkerSample ended = external(0, 1000);
  ended.alive = false;
  ended.ended_well = true;
  ended.ended_at = 10s;
  const auto end = watch(dog, {ended, external(1, 0)}, 10, 30);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 15);
}

TEST(Watchdog, TimeWithoutSamplesDoesNotCount) {
  Watchdog dog(WatchLimits{10s});
  EXPECT_FALSE(watch(dog, {external(0, 1), page_worker(1, 3)}, 0, 3));
  const auto end = watch(dog, {external(0, 1), page_worker(1, 3)}, 103, 200);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 113);
}

TEST(Watchdog, RankAheadInCollectivesHasSkippedOne) {
  Watchdog dog(WatchLimits{5s});
  WorkerSample first = page_worker(0, 7, Phase::backward);
  WorkerSample ahead = page_worker(1, 8, Phase::backward);
  first.in_collective = ahead.in_collective = true;
  const auto end = watch(dog, {first, ahead}, 0, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->second.rank, 1);
}

TEST(Watchdog, AProgramThatOnlyCountsStepsMayEvaluateWithoutALimit) {
  Watchdog dog(WatchLimits{});
  EXPECT_FALSE(watch(dog, {page_worker(0, 0)}, 0, 9));
  EXPECT_FALSE(watch(dog, {page_worker(0, 1, Phase::evaluating)}, 10, 10000));
}

TEST(Watchdog, AZombieHasEndedAndHangsNoMore) {
  Watchdog dog(WatchLimits{5s});
  EXPECT_FALSE(watch(dog, {external(0, 1, 'Z')}, 0, 100));
}

TEST(Watchdog, OutputIsASignOfLife) {
  Watchdog dog(WatchLimits{5s});
  WorkerSample sample = external(0, 1);
  for (int second = 0; second < 30; ++second) {
    sample.output_bytes += 1;
    EXPECT_THAT(dog.note_samples(std::chrono::seconds(second), std::vector{sample}), IsEmpty());
  }
}

TEST(Watchdog, WritingThePageIsProgressWithoutAStep) {
  Watchdog dog(WatchLimits{5s});
  WorkerSample sample = page_worker(0, 3, Phase::evaluating);
  for (int second = 0; second < 30; ++second) {
    ++sample.written_ns;
    EXPECT_THAT(dog.note_samples(std::chrono::seconds(second), std::vector{sample}), IsEmpty());
  }
}

TEST(Watchdog, BeforeTrainingAndAfterItThereIsNoAutomaticLimit) {
  for (const Phase phase : {Phase::starting, Phase::joining, Phase::finished}) {
    Watchdog dog(WatchLimits{});
    EXPECT_FALSE(watch(dog, {page_worker(0, 3)}, 0, 1));
    EXPECT_FALSE(watch(dog, {page_worker(0, 4, phase)}, 2, 1000)) << to_text(phase);
  }
}

TEST(Watchdog, BeforeTrainingAndAfterItAPageIsAsIfThereWereNone) {
  for (const Phase phase : {Phase::starting, Phase::joining, Phase::finished}) {
    Watchdog dog(WatchLimits{5s});
    WorkerSample busy = page_worker(1, 3, phase);
    std::optional<Finding> end;
    for (int second = 0; second < 30 && !end; ++second) {
      busy.activity.main_ticks = busy.activity.ticks = 100U * static_cast<unsigned>(second);
      if (second > 20) busy.activity = WorkerSample().activity;
      end = end_of(dog.note_samples(std::chrono::seconds(second),
                                    std::vector{page_worker(0, 3, phase), busy}));
      EXPECT_TRUE(!end || second >= 25) << to_text(phase) << " " << second;
    }
    ASSERT_TRUE(end) << to_text(phase);
    EXPECT_THAT(end->text, HasSubstr("neither ran nor printed for"));
  }
}

TEST(Watchdog, OurOwnWorkersLimitIsTenTimesItsSlowStepsAndAtLeastAMinute) {
  Watchdog fast(WatchLimits{});
  Watchdog slow(WatchLimits{});
  for (int second = 0; second < 300; ++second) {
    const auto now = std::chrono::seconds(second);
    EXPECT_THAT(fast.note_samples(now, std::vector{page_worker(0, 50 * second)}), IsEmpty());
    EXPECT_THAT(slow.note_samples(now, std::vector{page_worker(0, second / 10)}), IsEmpty());
  }
  const auto fast_end = watch(fast, {page_worker(0, 50 * 299)}, 300, 1000);
  ASSERT_TRUE(fast_end);
  EXPECT_EQ(fast_end->first, 299 + 60);
  const auto slow_end = watch(slow, {page_worker(0, 29)}, 300, 1000);
  ASSERT_TRUE(slow_end);
  EXPECT_EQ(slow_end->first, 290 + 100);
}

TEST(Watchdog, WithoutAStepThereIsNoAutomaticLimitAndAfterTheFirstOneThereIs) {
  Watchdog dog(WatchLimits{});
  EXPECT_FALSE(watch(dog, {page_worker(0, 0)}, 0, 9));
  const auto end = watch(dog, {page_worker(0, 1)}, 10, 1000);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 10 + 100);
}

TEST(Watchdog, SavingIsAsSlowAsItsDisk) {
  Watchdog dog(WatchLimits{});
  EXPECT_FALSE(watch(dog, {page_worker(0, 0)}, 0, 9));
  EXPECT_FALSE(watch(dog, {page_worker(0, 1, Phase::saving)}, 10, 10000));
}

TEST(Watchdog, ARankThatLeftIsTheCauseWhenAnotherWaitsInTheStoreForNobodysKey) {
  Watchdog dog(WatchLimits{});
  WorkerSample leaver = external(0, 1);
  leaver.alive = false;
  leaver.ended_well = true;
  leaver.ended_at = 5s;
  leaver.joined_store = true;
  WorkerSample waiter = external(1, 1);
  waiter.waits_since = 2s;
  EXPECT_FALSE(watch(dog, {leaver, waiter}, 6, 14));
  const auto end = watch(dog, {leaver, waiter}, 15, 20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 15);
  EXPECT_EQ(end->second.rank, 0);
  EXPECT_THAT(end->second.text,
              AllOf(HasSubstr("left with exit code 0"), HasSubstr("rank 1 has waited 10 s")));
}

/// It left with 0 without ever having been in the store.
WorkerSample absent_leaver(int rank) {
  WorkerSample leaver = external(rank, 1);
  leaver.alive = false;
  leaver.ended_well = true;
  return leaver;
}

TEST(Watchdog, ARankThatExitsBeforeItJoinsIsTheCauseWhenAllOthersWait) {
  Watchdog dog(WatchLimits{});
  WorkerSample waiter = external(1, 1);
  waiter.waits_since = 2s;
  const auto end = watch(dog, {absent_leaver(0), waiter}, 2, 1000);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->first, 12);
  EXPECT_EQ(end->second.rank, 0);
  EXPECT_THAT(end->second.text, HasSubstr("left with exit code 0 before it had joined the others"));
}

TEST(Watchdog, ARankThatExitsBeforeItJoinsHarmsNobodyWhileSomeoneCanSetTheKey) {
  Watchdog dog(WatchLimits{});
  WorkerSample waiter = external(1, 1);
  waiter.waits_since = 0s;
  EXPECT_FALSE(watch(dog, {absent_leaver(0), waiter, external(2, 1)}, 0, 1000));
}

}  // namespace
}  // namespace ddp::launcher
