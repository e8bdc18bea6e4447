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

/// The value of one rank beyond the median of all others.
template <typename Ranks, typename Value>
double beyond(const Ranks& ranks, std::size_t rank, Value value) {
  std::vector<double> values;
  for (const auto& one : ranks)
    values.push_back(value(one));
  return above_median_of_others(values, rank);
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
void find_cause(const Look& first, const Look& last, SlowRank& slow) {
  const auto rank = static_cast<std::size_t>(slow.rank);
  std::vector<Hindrance> found;
  for (std::size_t other = 0; other < last.ranks.size(); ++other)
    found.push_back(hindrance(first, last, other));
  const auto most = [&](double Hindrance::*part) { return beyond(found, rank, std::mem_fn(part)); };
  // Other ranks of the node wait for its disk alike, if they read from it.
  const double disk = slow.phase == Phase::data ? found[rank].disk_wait : 0;
  struct Candidate {
    NodeCause cause;
    double size;
    double least;
  };
  for (const Candidate& candidate :
       {Candidate{NodeCause::stopped, most(&Hindrance::stopped), kWorthSaying},
        Candidate{NodeCause::quota, most(&Hindrance::throttled), kWorthSaying},
        Candidate{NodeCause::no_core, most(&Hindrance::core_wait), kWorthSaying},
        Candidate{NodeCause::paging, most(&Hindrance::faults), kFaultsPerSecond},
        Candidate{NodeCause::heat, most(&Hindrance::hot), kWorthSaying},
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
  first_.reset();
  previous_.reset();
  slowest_.reset();
}

/// A program may begin to count its steps again in each epoch.
void SlowRankFinder::count_steps(std::span<const WorkerSample> samples) {
  const bool is_first = last_steps_.empty();
  last_steps_.resize(samples.size());
  sums_.resize(samples.size());
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    const std::int64_t step = samples[rank].step;
    const std::int64_t last = is_first ? step : last_steps_[rank];
    sums_[rank].steps += step >= last ? step - last : 1;
    last_steps_[rank] = step;
  }
}

SlowRankFinder::Look SlowRankFinder::look_at(nanoseconds now,
                                             std::span<const WorkerSample> samples) {
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    Point& sums = sums_[rank];
    sums.spent = *samples[rank].spent;
    sums.delays = samples[rank].delays;
    if (samples[rank].activity.state == 'T') ++sums.stops;
  }
  return {now, ++samples_, sums_};
}

SlowRankFinder::Growth SlowRankFinder::growth(const Point& first, const Point& last) {
  Growth grown;
  for (std::size_t i = 0; i < kWorkPhases.size(); ++i) {
    const auto part = kWorkPhases[i].spent;
    grown.work[i] = seconds_of(nanoseconds(last.spent.*part - first.spent.*part));
    grown.own += grown.work[i];
  }
  grown.waiting = seconds_of(nanoseconds(last.spent.waiting - first.spent.waiting));
  grown.steps = last.steps - first.steps;
  return grown;
}

SlowRankFinder::Judgement SlowRankFinder::judge(std::span<const Growth> grown) const {
  const auto own_share = [](const Growth& one) { return one.share(one.own); };
  auto rank =
      static_cast<std::size_t>(std::ranges::max_element(grown, {}, own_share) - grown.begin());
  double share = beyond(grown, rank, own_share);
  if (previous_) {
    const auto before = static_cast<std::size_t>(previous_->slow.rank);
    const double its = beyond(grown, before, own_share);
    if (its >= kWorthTelling && its >= kAlmost * share) {
      rank = before;
      share = its;
    }
  }

  Judgement judgement;
  SlowRank& slow = judgement.slow;
  slow.rank = static_cast<int>(rank);
  slow.share = std::clamp(share, 0.0, 1.0);
  for (std::size_t i = 0; i < kWorkPhases.size(); ++i) {
    judgement.excess[i] =
        beyond(grown, rank, [i](const Growth& one) { return one.share(one.work[i]); });
  }
  const auto worst = static_cast<std::size_t>(std::ranges::max_element(judgement.excess) -
                                              judgement.excess.begin());
  slow.phase = kWorkPhases[worst].phase;
  if (grown[rank].steps > 0) {
    const auto per_step = [worst](const Growth& one) {
      return one.work[worst] / std::max(static_cast<double>(one.steps), 1.0);
    };
    const auto to_time = [](double seconds) {
      return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
    };
    const double own = per_step(grown[rank]);
    slow.own_time = to_time(own);
    slow.others_time = to_time(own - beyond(grown, rank, per_step));
  }
  return judgement;
}

void SlowRankFinder::note_judgement(nanoseconds now, Judgement judgement) {
  SlowRank slow = judgement.slow;
  const bool is_slow = slow.share >= kWorthTelling;
  const bool is_same =
      previous_ && previous_->slow.rank == slow.rank && previous_->slow.share >= kWorthTelling;
  if (is_slow && (is_same || slow.share >= kPlain)) {
    if (is_same && slow.phase != previous_->slow.phase) {
      // The phase of the last span may have cost more in both together.
      const auto excess = [&](Phase phase) {
        const auto i = static_cast<std::size_t>(
            std::ranges::find(kWorkPhases, phase, &WorkPhase::phase) - kWorkPhases.begin());
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
  count_steps(samples);
  // A first step may do what no later one does.
  if (std::ranges::any_of(sums_, [](const Point& rank) { return rank.steps == 0; })) return;
  Look look = look_at(now, samples);
  if (!first_) {
    first_ = std::move(look);
    return;
  }
  const nanoseconds time = now - first_->at;
  if (time < kSpan) return;
  std::vector<Growth> grown;
  for (std::size_t rank = 0; rank < look.ranks.size(); ++rank)
    grown.push_back(growth(first_->ranks[rank], look.ranks[rank]));
  double skew = 0;
  for (const Growth& one : grown)
    skew = std::max(skew, std::abs(one.all() / seconds_of(time) - 1));
  if (skew > kMostSkew) {
    if (time >= 2 * kLongestSpan) first_ = std::move(look);
    return;
  }
  Judgement judgement = judge(grown);
  const bool is_plain = judgement.slow.share >= kPlain;
  const std::int64_t steps = std::ranges::min_element(grown, {}, &Growth::steps)->steps;
  if (steps < kSpanSteps && time < kLongestSpan && !is_plain) return;
  find_cause(*first_, look, judgement.slow);
  note_judgement(now, judgement);
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
