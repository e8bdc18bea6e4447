#include "launcher/plan/hang/slow_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;

// Shares of the time from which a cause is told.
constexpr double kWorthSaying = 0.1;
constexpr double kDiskWorthSaying = 0.2;  // of the whole node, so it may be another program's
constexpr double kFaultsPerSecond = 50;
// How far a rank's times may be from the time that has passed here: samples of other nodes come
// late now and then.
constexpr double kMostSkew = 0.15;

double seconds_of(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Whether this rank can be compared: its page tells, and it trains, evaluates or saves.
bool is_comparable(const WorkerSample& sample) {
  return sample.alive && sample.spent.has_value() && has_begun(sample.phase) &&
         is_judged_by_page(sample) && sample.phase != Phase::stopping;
}

using ValueOfRank = std::function<double(std::size_t)>;

/// The value of one rank beyond the median of all others; there are at least two ranks.
double beyond_others(std::size_t ranks, std::size_t rank, const ValueOfRank& value) {
  std::vector<double> others;
  for (std::size_t other = 0; other < ranks; ++other)
    if (other != rank) others.push_back(value(other));
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return value(rank) - *middle;
}

/// Growth of a rank's sums over a span.
struct Growth {
  double own = 0;      // seconds of its own work
  double waiting = 0;  // seconds
  double steps = 0;
  std::array<double, kWork.size()> work{};  // seconds

  [[nodiscard]] double all() const { return own + waiting; }
  /// Of a sum of `seconds`, its share of the time.
  [[nodiscard]] double share(double seconds) const { return all() > 0 ? seconds / all() : 0; }
};

template <typename Point>
Growth growth(const Point& first, const Point& last) {
  Growth grown;
  for (std::size_t i = 0; i < kWork.size(); ++i) {
    const auto part = kWork[i].spent;
    grown.work[i] = seconds_of(nanoseconds(last.spent.*part - first.spent.*part));
    grown.own += grown.work[i];
  }
  grown.waiting = seconds_of(nanoseconds(last.spent.waiting - first.spent.waiting));
  grown.steps = static_cast<double>(last.steps - first.steps);
  return grown;
}

/// What a node did to one rank over a span, as shares of the time.
struct Hindrance {
  double stopped = 0;  // of the samples
  double throttled = 0;
  double core_wait = 0;
  double faults = 0;  // pages
  double hot = 0;
  double disk_wait = 0;
};

template <typename Look>
Hindrance hindrance(const Look& first, const Look& last, std::size_t rank) {
  Hindrance found;
  const auto& old = first.ranks[rank].delays;
  const auto& newest = last.ranks[rank].delays;
  const double time = seconds_of(last.at - first.at);
  found.stopped = static_cast<double>(last.ranks[rank].stops - first.ranks[rank].stops) /
                  std::max(last.samples - first.samples, 1);
  if (!old || !newest) return found;
  const auto grown = [](std::uint64_t before, std::uint64_t after) {
    return static_cast<double>(after - std::min(before, after));
  };
  if (const double periods = grown(old->quota_periods, newest->quota_periods); periods > 0)
    found.throttled = grown(old->throttled_periods, newest->throttled_periods) / periods;
  found.core_wait = seconds_of(newest->core_wait - old->core_wait) / time;
  found.faults = grown(old->major_faults, newest->major_faults) / time;
  // Each core has a count of its own.
  if (newest->core == old->core) found.hot = seconds_of(newest->hot - old->hot) / time;
  found.disk_wait = seconds_of(newest->disk_wait - old->disk_wait) / time;
  return found;
}

template <typename Look>
void find_cause(const Look& first, const Look& last, std::size_t rank, SlowRank& slow) {
  const auto beyond = [&](double Hindrance::*part) {
    return beyond_others(last.ranks.size(), rank, [&](std::size_t other) {
      return hindrance(first, last, other).*part;
    });
  };
  // Other ranks of the node wait for its disk alike, if they read from it.
  const double disk = slow.phase == Phase::data ? hindrance(first, last, rank).disk_wait : 0;
  struct Candidate {
    NodeCause cause;
    double size;
    double least;
  };
  for (const Candidate& candidate :
       {Candidate{NodeCause::stopped, beyond(&Hindrance::stopped), kWorthSaying},
        Candidate{NodeCause::quota, beyond(&Hindrance::throttled), kWorthSaying},
        Candidate{NodeCause::no_core, beyond(&Hindrance::core_wait), kWorthSaying},
        Candidate{NodeCause::paging, beyond(&Hindrance::faults), kFaultsPerSecond},
        Candidate{NodeCause::heat, beyond(&Hindrance::hot), kWorthSaying},
        Candidate{NodeCause::disk, disk, kDiskWorthSaying}}) {
    if (candidate.size < candidate.least) continue;
    slow.cause = candidate.cause;
    slow.cause_size = candidate.size;
    return;
  }
}

std::string share_text(double share) {
  return fmt::format("{:.0f}%", 100 * std::clamp(share, 0.0, 1.0));
}

std::string time_per_step(nanoseconds time) {
  const double milliseconds = 1e3 * seconds_of(time);
  return fmt::format("{:.{}f} ms", milliseconds, milliseconds < 10 ? 1 : 0);
}

/// What a rank is at in that phase, for a sentence about it.
std::string work_text(Phase phase) {
  if (phase == Phase::data) return "its wait for data";
  if (phase == Phase::training) return "the rest of its step";
  if (phase == Phase::evaluating) return "its evaluation";
  if (phase == Phase::saving) return "its checkpoints";
  return "its " + std::string(to_text(phase));
}

}  // namespace

std::string short_text(const SlowRank& slow) {
  return fmt::format("slowest rank {}: {}, others wait {}",
                     slow.rank,
                     to_text(slow.phase),
                     share_text(slow.share));
}

std::string cause_text(const SlowRank& slow) {
  const std::string share = share_text(slow.cause_size);
  switch (slow.cause) {
    case NodeCause::none:
      return "";
    case NodeCause::stopped:
      return "it is stopped again and again (state T)";
    case NodeCause::quota:
      return "the CPU quota of its cgroup is used up in " + share + " of all periods";
    case NodeCause::no_core:
      return "it is ready and has no core " + share +
             " of the time, as something else runs on its cores";
    case NodeCause::paging:
      return fmt::format("{:.0f} pages of its memory a second are read from a disk",
                         slow.cause_size);
    case NodeCause::heat:
      return "its core is slowed down by its temperature " + share + " of the time";
    case NodeCause::disk:
      return "programs there wait for a disk " + share + " of the time";
  }
  return "";
}

std::string to_text(const SlowRank& slow) {
  std::string text;
  if (slow.share >= SlowRankFinder::kPlain && slow.own_time.count() == 0) {
    text = fmt::format(
        "the other ranks wait for rank {}, which is {}", slow.rank, to_text(slow.phase));
  } else {
    text = fmt::format("rank {} is the slowest: others wait for it {} of the time, for {}",
                       slow.rank,
                       share_text(slow.share),
                       work_text(slow.phase));
  }
  if (slow.own_time.count() > 0) {
    text += fmt::format(" ({} a step, of other ranks {})",
                        time_per_step(slow.own_time),
                        time_per_step(slow.others_time));
  }
  const std::string cause = cause_text(slow);
  return text + (cause.empty() ? "." : ". Its node: " + cause + ".");
}

void SlowRankFinder::restart() {
  last_steps_.clear();
  sums_.clear();
  has_begun_ = false;
  first_.reset();
  previous_.reset();
  slowest_.reset();
}

/// A program may begin to count its steps again in each epoch.
bool SlowRankFinder::have_all_stepped(std::span<const WorkerSample> samples) {
  const bool is_first = last_steps_.empty();
  last_steps_.resize(samples.size());
  sums_.resize(samples.size());
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    const std::int64_t step = samples[rank].step;
    const std::int64_t last = is_first ? step : last_steps_[rank];
    sums_[rank].steps += step >= last ? step - last : 1;
    last_steps_[rank] = step;
  }
  return std::ranges::all_of(sums_, [](const Point& rank) { return rank.steps > 0; });
}

SlowRankFinder::Look SlowRankFinder::look_at(nanoseconds now,
                                             std::span<const WorkerSample> samples) {
  Look look{now, ++samples_, {}};
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    const WorkerSample& sample = samples[rank];
    if (sample.activity.state == 'T') ++sums_[rank].stops;
    look.ranks.push_back({sums_[rank].steps, *sample.spent, sample.delays, sums_[rank].stops});
  }
  return look;
}

SlowRankFinder::Judgement SlowRankFinder::judge(const Look& last) const {
  const std::size_t ranks = last.ranks.size();
  std::vector<Growth> grown;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    grown.push_back(growth(first_->ranks[rank], last.ranks[rank]));
  const auto own_share = [&](std::size_t rank) { return grown[rank].share(grown[rank].own); };

  std::size_t rank = 0;
  for (std::size_t other = 1; other < ranks; ++other)
    if (own_share(other) > own_share(rank)) rank = other;
  double share = beyond_others(ranks, rank, own_share);
  if (previous_) {
    const auto before = static_cast<std::size_t>(previous_->slow.rank);
    const double its = beyond_others(ranks, before, own_share);
    if (its >= kWorthTelling && its >= kAlmost * share) {
      rank = before;
      share = its;
    }
  }

  Judgement judgement;
  SlowRank& slow = judgement.slow;
  slow.rank = static_cast<int>(rank);
  slow.share = std::clamp(share, 0.0, 1.0);
  for (std::size_t i = 0; i < kWork.size(); ++i) {
    judgement.excess[i] = beyond_others(
        ranks, rank, [&](std::size_t other) { return grown[other].share(grown[other].work[i]); });
  }
  const auto worst = static_cast<std::size_t>(std::ranges::max_element(judgement.excess) -
                                              judgement.excess.begin());
  slow.phase = kWork[worst].phase;
  if (grown[rank].steps > 0) {
    const auto per_step = [&](std::size_t other) {
      return grown[other].work[worst] / std::max(grown[other].steps, 1.0);
    };
    const auto to_time = [](double seconds) {
      return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
    };
    slow.own_time = to_time(per_step(rank));
    slow.others_time = to_time(per_step(rank) - beyond_others(ranks, rank, per_step));
  }
  find_cause(*first_, last, rank, slow);
  return judgement;
}

void SlowRankFinder::take(nanoseconds now, Judgement judgement) {
  SlowRank slow = judgement.slow;
  const bool is_slow = slow.share >= kWorthTelling;
  const bool is_same =
      previous_ && previous_->slow.rank == slow.rank && previous_->slow.share >= kWorthTelling;
  if (is_slow && (is_same || slow.share >= kPlain)) {
    if (is_same && slow.phase != previous_->slow.phase) {
      // The phase of the last span may have cost more in both together.
      const auto excess = [&](Phase phase) {
        const auto i =
            static_cast<std::size_t>(std::ranges::find(kWork, phase, &Work::phase) - kWork.begin());
        return judgement.excess[i] + previous_->excess[i];
      };
      if (excess(previous_->slow.phase) > excess(slow.phase)) slow = previous_->slow;
    }
    if (!slowest_ || slowest_->rank != slow.rank) named_since_ = now;
    judged_at_ = now;
    slowest_ = slow;
  } else {
    slowest_.reset();
  }
  previous_ = judgement;
}

void SlowRankFinder::note(nanoseconds now, std::span<const WorkerSample> samples) {
  const bool is_complete = samples.size() > 1 && std::ranges::all_of(samples, is_comparable);
  if (!is_complete || (!sums_.empty() && sums_.size() != samples.size())) return restart();
  has_begun_ = have_all_stepped(samples) || has_begun_;
  if (!has_begun_) return;  // a first step may do what no later one does
  Look look = look_at(now, samples);
  if (!first_) {
    first_ = std::move(look);
    return;
  }
  const nanoseconds time = now - first_->at;
  if (time < kSpan) return;
  std::int64_t steps = look.ranks[0].steps - first_->ranks[0].steps;
  double skew = 0;
  for (std::size_t rank = 0; rank < look.ranks.size(); ++rank) {
    steps = std::min(steps, look.ranks[rank].steps - first_->ranks[rank].steps);
    const double its = growth(first_->ranks[rank], look.ranks[rank]).all();
    skew = std::max(skew, std::abs(its / seconds_of(time) - 1));
  }
  if (skew > kMostSkew) {
    if (time >= 2 * kLongestSpan) first_ = std::move(look);
    return;
  }
  const Judgement judgement = judge(look);
  const bool is_plain = judgement.slow.share >= kPlain;
  if (steps < kSpanSteps && time < kLongestSpan && !is_plain) return;
  take(now, judgement);
  first_ = std::move(look);
}

std::optional<SlowRank> SlowRankFinder::take_warning() {
  if (!slowest_ || judged_at_ - named_since_ < kWarnAfter || warned_.size() >= kMostWarnings)
    return std::nullopt;
  const bool has_cause = slowest_->cause != NodeCause::none;
  const Warned key{slowest_->rank, has_cause ? Phase::none : slowest_->phase, slowest_->cause};
  if (std::ranges::find(warned_, key) != warned_.end()) return std::nullopt;
  warned_.push_back(key);
  return slowest_;
}

}  // namespace ddp::launcher
