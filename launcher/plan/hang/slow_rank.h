// Finds the rank that slows a job down, with the phase in which it loses the time and what its node
// does to it. Pure; fed with the samples of all ranks, about one a second.
// Ranks that average gradients step together, so a step's time says nothing about one rank: a slow
// backward of one shows as everybody's all-reduce. But each page tells how long its rank has been
// in each phase, and counts waits for other ranks separately. The slowest rank is the one with the
// largest share of work of its own.
// Promises: it stays silent until every rank has made a step, and unless the same rank was slow in
// two spans in a row, by a share of the time that is worth telling. Memory: two samples of each
// rank, however long the job.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/progress/above_median_of_others.h"
#include "common/progress/rank_progress.h"
#include "launcher/plan/hang/watchdog.h"

namespace ddp::launcher {

/// What its node does to a rank, beyond what it does to the others.
enum class NodeCause : std::uint8_t { none, stopped, quota, no_core, paging, heat, disk };

struct SlowRank {
  int rank = 0;
  Phase phase = Phase::training;  // in which it loses most
  double share = 0;  // of the time, up to 1: its own work beyond the median of the others
  std::chrono::nanoseconds own_time{0};     // in that phase, per step; 0: no step was done
  std::chrono::nanoseconds others_time{0};  // likewise, median of the others
  NodeCause cause = NodeCause::none;        // the first that is large enough
  double cause_size = 0;                    // share of the time; of paging: pages a second
  bool operator==(const SlowRank&) const = default;
};

/// "slowest rank 1: backward, others wait 35%"
std::string short_text(const SlowRank& slow);
/// What its node does to it: "it is stopped again and again (state T)"; empty: nothing seen.
std::string cause_text(const SlowRank& slow);
/// The whole of it, as a sentence or two.
std::string to_text(const SlowRank& slow);

class SlowRankFinder {
 public:
  // A span is that long and has that many steps, or is kLongestSpan long.
  static constexpr std::chrono::seconds kSpan{5};
  static constexpr std::int64_t kSpanSteps = 25;
  static constexpr std::chrono::seconds kLongestSpan{30};
  static constexpr double kWorthTelling = kSlowShare;
  // One rank alone works, the others do nothing but wait: one span, without a step, is enough.
  static constexpr double kPlain = 0.9;
  // The rank that was named last stays named while it is almost as slow as the slowest. So of
  // several ranks on a slow node one is named, instead of each in turn and none for long.
  static constexpr double kAlmost = 0.8;
  static constexpr std::chrono::seconds kWarnAfter{15};  // of being named all the time
  static constexpr std::size_t kMostWarnings = 5;        // in a round

  /// `now` counts from any fixed point; `samples` are of all ranks of the round, by rank.
  void note(std::chrono::nanoseconds now, std::span<const WorkerSample> samples);

  /// Nothing: no rank stands out, or the pages do not tell.
  [[nodiscard]] const std::optional<SlowRank>& slowest() const { return slowest_; }

  /// What is to be printed now: once for each rank and cause; without a cause, for each phase.
  [[nodiscard]] std::optional<SlowRank> take_warning();

 private:
  /// A rank's sums so far.
  struct Point {
    std::int64_t steps = 0;  // that this object has seen
    TimeSpent spent;
    std::optional<NodeDelays> delays;
    int stops = 0;  // samples that showed it stopped
  };
  struct Look {
    std::chrono::nanoseconds at{0};
    int samples = 0;
    std::vector<Point> ranks;
  };
  /// How a rank's sums have grown over a span; times in seconds.
  struct Growth {
    double own = 0;  // of its own work
    double waiting = 0;
    std::int64_t steps = 0;
    std::array<double, kWorkPhases.size()> work{};

    [[nodiscard]] double all() const { return own + waiting; }
    /// What share of the time a part of it is.
    [[nodiscard]] double share(double part) const { return all() > 0 ? part / all() : 0; }
  };
  [[nodiscard]] static Growth growth(const Point& first, const Point& last);
  using Excess = std::array<double, kWorkPhases.size()>;  // shares beyond the median of the others
  struct Judgement {
    SlowRank slow;
    Excess excess{};
  };
  struct Warned {
    int rank = 0;
    Phase phase = Phase::none;  // none: of any
    NodeCause cause = NodeCause::none;
    bool operator==(const Warned&) const = default;
  };
  void count_steps(std::span<const WorkerSample> samples);
  [[nodiscard]] Look look_at(std::chrono::nanoseconds now, std::span<const WorkerSample> samples);
  /// `grown`: by rank, over the span.
  [[nodiscard]] Judgement judge(std::span<const Growth> grown) const;
  void note_judgement(std::chrono::nanoseconds now, Judgement judgement);
  void restart();

  std::vector<std::int64_t> last_steps_;  // by rank, as the pages tell; empty: not begun
  std::vector<Point> sums_;               // by rank
  int samples_ = 0;
  std::optional<Look> first_;  // of this span
  std::optional<Judgement> previous_;
  std::optional<SlowRank> slowest_;
  std::chrono::nanoseconds named_since_{0};
  std::chrono::nanoseconds judged_at_{0};  // when it was named last
  std::vector<Warned> warned_;
};

}  // namespace ddp::launcher
