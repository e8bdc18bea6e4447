#include "launcher/plan/hang/slow_rank.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMillisecond = 1'000'000;

/// A job whose ranks step together, sampled once a second.
class FakeJob {
 public:
  explicit FakeJob(int ranks) : samples_(static_cast<std::size_t>(ranks)) {
    for (std::size_t rank = 0; rank < samples_.size(); ++rank) {
      WorkerSample& sample = samples_[rank];
      sample.rank = static_cast<int>(rank);
      sample.has_page = true;
      sample.phase = Phase::training;
      sample.activity.state = 'R';
      sample.spent.emplace();
      sample.delays.emplace();
    }
  }

  WorkerSample& rank(std::size_t number) { return samples_[number]; }

  /// Makes steps of 100 ms in which each rank does 40 ms of its own, and what `extra` adds to it.
  template <typename Extra>
  void run(seconds time, Extra extra) {
    for (seconds second(0); second < time; second += 1s) {
      for (WorkerSample& sample : samples_) {
        sample.step += 10;
        TimeSpent& spent = *sample.spent;
        spent.forward += 10 * 15 * kMillisecond;
        spent.backward += 10 * 25 * kMillisecond;
        spent.waiting += 10 * 60 * kMillisecond;
        extra(sample);
      }
      now_ += 1s;
      finder_.note(now_, samples_);
      while (const std::optional<SlowRank> slow = finder_.take_warning())
        warnings_.push_back(to_text(*slow));
    }
  }

  [[nodiscard]] const std::optional<SlowRank>& slowest() const { return finder_.slowest(); }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<WorkerSample> samples_;
  SlowRankFinder finder_;
  nanoseconds now_{0};
  std::vector<std::string> warnings_;
};

/// Rank `slow` does that much more in each step instead of waiting.
auto longer(int slow, std::int64_t TimeSpent::*part, std::int64_t milliseconds) {
  return [=](WorkerSample& sample) {
    if (sample.rank != slow) return;
    (*sample.spent).*part += 10 * milliseconds * kMillisecond;
    sample.spent->waiting -= 10 * milliseconds * kMillisecond;
  };
}

void nothing(WorkerSample&) {}

TEST(SlowRank, IsTheOneThatDoesMostOfItsOwn) {
  FakeJob job(3);
  job.run(6s, longer(1, &TimeSpent::backward, 50));
  EXPECT_FALSE(job.slowest()) << "one span is not enough";
  job.run(6s, longer(1, &TimeSpent::backward, 50));
  ASSERT_TRUE(job.slowest());
  EXPECT_EQ(job.slowest()->rank, 1);
  EXPECT_EQ(job.slowest()->phase, Phase::backward);
  EXPECT_NEAR(job.slowest()->share, 0.5, 0.01);
  EXPECT_EQ(job.slowest()->own_time, 75ms);
  EXPECT_EQ(job.slowest()->others_time, 25ms);
  EXPECT_EQ(short_text(*job.slowest()), "slowest rank 1: backward, others wait 50%");
}

TEST(SlowRank, ItsPhaseIsTheOneInWhichItLosesMost) {
  for (const WorkPhase& work : kWorkPhases) {
    FakeJob job(2);
    job.run(12s, [&](WorkerSample& sample) {
      longer(1, work.spent, 20)(sample);
      longer(1, &TimeSpent::forward, 2)(sample);
    });
    ASSERT_TRUE(job.slowest());
    EXPECT_EQ(job.slowest()->rank, 1);
    EXPECT_EQ(job.slowest()->phase, work.phase);
  }
}

TEST(SlowRank, NobodyIsNamedWhereNobodyStandsOut) {
  FakeJob job(4);
  job.run(60s, nothing);
  job.run(60s, longer(2, &TimeSpent::data, 10));  // 10 % of the time
  int second = 0;
  job.run(60s, [&](WorkerSample& sample) {  // each in turn, as on a busy machine
    if (sample.rank == 0) ++second;
    longer(second / 6 % 4, &TimeSpent::backward, 50)(sample);
  });
  EXPECT_TRUE(job.warnings().empty()) << job.warnings()[0];
}

TEST(SlowRank, OneRankIsNeverSlow) {
  FakeJob job(1);
  job.run(60s, longer(0, &TimeSpent::data, 50));
  EXPECT_FALSE(job.slowest());
}

TEST(SlowRank, IsForgottenOnceItKeepsUp) {
  FakeJob job(2);
  job.run(20s, longer(1, &TimeSpent::data, 30));
  EXPECT_TRUE(job.slowest());
  job.run(12s, nothing);
  EXPECT_FALSE(job.slowest());
}

TEST(SlowRank, AWarningComesOnceForEachRankAndPhase) {
  FakeJob job(3);
  job.run(20s, longer(1, &TimeSpent::data, 30));
  EXPECT_TRUE(job.warnings().empty()) << "it may pass";
  job.run(100s, longer(1, &TimeSpent::data, 30));
  job.run(20s, nothing);
  job.run(100s, longer(1, &TimeSpent::data, 30));
  ASSERT_EQ(job.warnings().size(), 1U);
  EXPECT_EQ(job.warnings()[0],
            "rank 1 is the slowest: others wait for it 30% of the time, for its wait for data "
            "(30 ms a step, of other ranks 0.0 ms).");
  job.run(100s, longer(2, &TimeSpent::training, 30));
  EXPECT_EQ(job.warnings().size(), 2U);
  for (int rank = 0; rank < 3; ++rank) {
    for (const WorkPhase& work : kWorkPhases)
      job.run(60s, longer(rank, work.spent, 30));
  }
  EXPECT_EQ(job.warnings().size(), SlowRankFinder::kMostWarnings);
}

/// One rank alone is in `phase`, without a step.
void alone_in(FakeJob& job, Phase phase, std::int64_t TimeSpent::*part, seconds time) {
  job.run(time, [=](WorkerSample& sample) {
    const auto second = static_cast<std::int64_t>(1000) * kMillisecond;
    sample.step -= 10;
    sample.spent->forward -= 150 * kMillisecond;
    sample.spent->backward -= 250 * kMillisecond;
    sample.spent->waiting -= 600 * kMillisecond;
    (*sample.spent).*(sample.rank == 0 ? part : &TimeSpent::waiting) += second;
    if (sample.rank == 0) sample.phase = phase;
  });
}

TEST(SlowRank, IsTheOneThatEvaluatesOrSavesAlone) {
  FakeJob job(2);
  job.run(20s, nothing);
  alone_in(job, Phase::evaluating, &TimeSpent::evaluating, 11s);
  ASSERT_TRUE(job.slowest());
  EXPECT_EQ(job.slowest()->rank, 0);
  EXPECT_EQ(job.slowest()->phase, Phase::evaluating);
  EXPECT_EQ(to_text(*job.slowest()), "the other ranks wait for rank 0, which is evaluating.");
}

TEST(SlowRank, PagesThatDoNotTellNameNobody) {
  SlowRankFinder finder;
  std::vector<WorkerSample> samples{FakeJob(2).rank(0), FakeJob(2).rank(1)};
  for (seconds second(0); second < 60s; second += 1s) {
    for (WorkerSample& sample : samples) {
      sample.step += 10;
      (sample.rank == 1 ? sample.spent->data : sample.spent->waiting) += 1000 * kMillisecond;
    }
    finder.note(second, samples);
    if (second < 30s) continue;
    EXPECT_TRUE(finder.slowest());
    const std::optional<TimeSpent> spent = std::exchange(samples[0].spent, std::nullopt);
    SlowRankFinder other = finder;
    other.note(second + 1s, samples);
    EXPECT_FALSE(other.slowest());
    samples[0].spent = spent;
  }
}

// The other ranks may wait while one compiles or fills a cache.
TEST(SlowRank, AFirstStepMayTakeLong) {
  FakeJob job(2);
  alone_in(job, Phase::training, &TimeSpent::training, 100s);
  EXPECT_FALSE(job.slowest());
  EXPECT_TRUE(job.warnings().empty());
}

TEST(SlowRank, AWarningIsNotAboutWhatHasPassed) {
  FakeJob job(2);
  job.run(20s, nothing);
  alone_in(job, Phase::saving, &TimeSpent::saving, 11s);
  job.rank(0).phase = Phase::training;
  int second = 0;
  job.run(120s, [&](WorkerSample& sample) {  // steps of 3 s
    if (sample.rank == 0) ++second;
    sample.step -= second % 3 == 0 ? 9 : 10;
  });
  EXPECT_TRUE(job.warnings().empty()) << job.warnings()[0];
}

// A program may count the steps of each epoch.
TEST(SlowRank, StepsMayBeginAgain) {
  FakeJob job(2);
  for (int epoch = 0; epoch < 10; ++epoch) {
    job.rank(0).step = job.rank(1).step = 0;
    job.run(3s, longer(1, &TimeSpent::backward, 30));
  }
  ASSERT_TRUE(job.slowest());
  EXPECT_EQ(job.slowest()->rank, 1);
}

// Half of the ranks are on a node that is slow, and each is the slowest of them now and then.
TEST(SlowRank, OneOfASlowNodeIsNamed) {
  FakeJob job(16);
  int second = 0;
  job.run(60s, [&](WorkerSample& sample) {
    if (sample.rank == 0) ++second;
    if (sample.rank % 2 == 0) return;
    longer(sample.rank, &TimeSpent::backward, 40)(sample);
    longer(second / 5 * 2 % 16 + 1, &TimeSpent::backward, 4)(sample);
  });
  ASSERT_TRUE(job.slowest());
  EXPECT_EQ(job.slowest()->rank % 2, 1);
  EXPECT_EQ(job.warnings().size(), 1U);
}

// Samples of other nodes come late now and then: their growth is not that of this span.
TEST(SlowRank, LateSamplesAreNotCompared) {
  FakeJob job(2);
  int second = 0;
  job.run(60s, [&](WorkerSample& sample) {
    if (sample.rank == 0) ++second;
    if (sample.rank == 0 || second % 12 < 6) return;
    sample.spent->forward += (second % 2 == 0 ? 1 : -1) * 900 * kMillisecond;
  });
  EXPECT_TRUE(job.warnings().empty());
}

TEST(SlowRank, ALostRankBeginsAgain) {
  FakeJob job(2);
  job.run(20s, longer(1, &TimeSpent::data, 30));
  ASSERT_TRUE(job.slowest());
  job.rank(1).alive = false;
  job.run(1s, nothing);
  EXPECT_FALSE(job.slowest());
}

/// What is said of rank 1 when its node does that to it each second.
std::string warning_of(Phase phase, void (*hold_up)(WorkerSample&)) {
  FakeJob job(3);
  const auto* const work = std::ranges::find(kWorkPhases, phase, &WorkPhase::phase);
  job.run(60s, [&](WorkerSample& sample) {
    sample.delays->quota_periods += 10;
    longer(1, work->spent, 30)(sample);
    if (sample.rank == 1) hold_up(sample);
  });
  return job.warnings().empty() ? "" : job.warnings()[0];
}

void use_up_quota(WorkerSample& sample) {
  sample.delays->throttled_periods += 4;
}
void take_core(WorkerSample& sample) {
  sample.delays->core_wait += 300ms;
}
void page_in(WorkerSample& sample) {
  sample.delays->major_faults += 800;
}
void heat(WorkerSample& sample) {
  sample.delays->hot += 500ms;
}
void stop(WorkerSample& sample) {
  sample.activity.state = 'T';
}
void slow_disk(WorkerSample& sample) {
  sample.delays->disk_wait += 700ms;
}

TEST(SlowRank, WhatItsNodeDoesToItIsSaid) {
  EXPECT_THAT(warning_of(Phase::backward, nothing), Not(HasSubstr("Its node")));
  EXPECT_THAT(
      warning_of(Phase::backward, use_up_quota),
      HasSubstr(". Its node: the CPU quota of its cgroup is used up in 40% of all periods."));
  EXPECT_THAT(warning_of(Phase::backward, take_core),
              HasSubstr("it is ready and has no core 30% of the time"));
  EXPECT_THAT(warning_of(Phase::backward, page_in),
              HasSubstr("800 pages of its memory a second are read from a disk"));
  EXPECT_THAT(warning_of(Phase::backward, heat),
              HasSubstr("slowed down by its temperature 50% of the time"));
  EXPECT_THAT(warning_of(Phase::backward, stop),
              HasSubstr("it is stopped again and again (state T)"));
  EXPECT_THAT(warning_of(Phase::data, slow_disk), HasSubstr("wait for a disk 70% of the time"));
  EXPECT_THAT(warning_of(Phase::backward, slow_disk), Not(HasSubstr("disk")));
}

// Each core has a count of its own; a rank that moves has not become hot.
TEST(SlowRank, AnotherCoreIsNotAHotOne) {
  EXPECT_THAT(warning_of(Phase::backward,
                         [](WorkerSample& sample) {
                           ++sample.delays->core;
                           sample.delays->hot += 5s;
                         }),
              Not(HasSubstr("temperature")));
}

// As in a pod whose quota is too small for all of its ranks.
TEST(SlowRank, WhatHoldsUpAllRanksIsNotItsCause) {
  for (const auto hold_up : {use_up_quota, take_core, page_in, heat, stop}) {
    FakeJob job(3);
    job.run(60s, [&](WorkerSample& sample) {
      longer(1, &TimeSpent::backward, 30)(sample);
      sample.delays->quota_periods += 10;
      hold_up(sample);
    });
    ASSERT_EQ(job.warnings().size(), 1U);
    EXPECT_THAT(job.warnings()[0], AllOf(HasSubstr("rank 1"), Not(HasSubstr("Its node"))));
  }
}

// The phase that it hits is another one each time.
TEST(SlowRank, OneCauseIsSaidOnceWhateverThePhase) {
  FakeJob job(2);
  for (const WorkPhase& work : kWorkPhases) {
    job.run(60s, [&](WorkerSample& sample) {
      longer(1, work.spent, 30)(sample);
      if (sample.rank == 1) take_core(sample);
    });
  }
  EXPECT_EQ(job.warnings().size(), 1U);
}

}  // namespace
}  // namespace ddp::launcher
