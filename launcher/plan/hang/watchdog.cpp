#include "launcher/plan/hang/watchdog.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kStepTimes = 512;  // from which the p99 is taken

bool is_frozen(const WorkerSample& sample) {
  return sample.activity.state == 'T' || sample.activity.state == 't';
}

bool lives(const WorkerSample& sample) {
  return sample.alive && sample.activity.state != 'Z';
}

/// Counts all parts of a step as one phase, for the timing of steps.
Phase whole_of(Phase phase) {
  return is_step(phase) ? Phase::training : phase;
}

std::string seconds(nanoseconds time) {
  return std::to_string(std::chrono::round<std::chrono::seconds>(time).count()) + " s";
}

std::string state_text(const WorkerSample& sample) {
  if (is_frozen(sample)) return "is stopped (state T)";
  std::string text = sample.activity.state == 'D'
                         ? "is in an uninterruptible sleep (state D)"
                         : std::string("is in state ") + sample.activity.state;
  if (!sample.activity.waits_in.empty()) text += " in " + sample.activity.waits_in;
  return text;
}

std::string where(const WorkerSample& sample) {
  if (!sample.has_page) return "";
  return ", phase " + std::string(to_text(sample.phase)) +
         (sample.in_collective ? " in a collective" : "") + ", step " + std::to_string(sample.step);
}

WaitKind kind_of(const WorkerSample& sample) {
  return sample.waits_since ? WaitKind::peers : wait_kind(sample.activity);
}

/// Ranks with equal text wait in the same place.
std::string place_of(const WorkerSample& sample) {
  return sample.waits_since ? "the store" : sample.activity.state + sample.activity.waits_in;
}

/// How likely others wait for this rank, among ranks that make no progress. Smaller is likelier;
/// the first member that differs decides.
struct Suspicion {
  bool is_frozen = false;              // likelier, as are the next two
  bool is_uninterruptible = false;     // in such a sleep
  bool is_outside_collective = false;  // in which others are
  std::int64_t steps = 0;  // fewest first; if all are in collectives, most first: it left one out
  std::size_t companions = 0;  // ranks that wait in the same place
  WaitKind kind = WaitKind::peers;
  nanoseconds moved_at{0};
  int rank = 0;

  [[nodiscard]] auto evidence() const {
    return std::tuple(
        !is_frozen, !is_uninterruptible, !is_outside_collective, steps, companions, kind);
  }
  [[nodiscard]] auto order() const {
    return std::tuple_cat(evidence(), std::tuple(moved_at, rank));
  }
};

}  // namespace

void Watchdog::follow(nanoseconds now, const WorkerSample& sample, Track& track) const {
  const WorkerSample& last = track.last;
  const bool stepped = track.seen && sample.step > last.step;
  const bool changed_phase = whole_of(sample.phase) != whole_of(last.phase);
  const bool wrote = sample.written_ns != last.written_ns;
  bool moved = !track.seen || sample.step != last.step || sample.phase != last.phase ||
               sample.has_page != last.has_page;
  if (sample.has_page) {
    moved = moved || wrote || sample.in_collective != last.in_collective;
    track.wrote_in_phase = !changed_phase && (track.wrote_in_phase || wrote);
  } else {
    moved = moved || sample.output_bytes != last.output_bytes ||
            sample.store_writes != last.store_writes;
  }
  if (stepped) {
    // Several steps may lie between two samples; count them as one, with their mean time.
    const nanoseconds each = (now - track.step_at) / (sample.step - last.step);
    if (track.step_times.size() < kStepTimes) track.step_times.resize(track.step_times.size() + 1);
    track.step_times[track.next_step_time++ % kStepTimes] = each;
  }
  if (stepped || !track.seen || changed_phase) track.step_at = now;
  if (moved) track.moved_at = track.reported_at = now;
  // A worker in state D could not show progress, so its time starts again when it leaves it.
  if (last.activity.state == 'D' && sample.activity.state != 'D') track.moved_at = now;
  const nanoseconds limit = limits_.hang_timeout.value_or(nanoseconds(0));
  if (!is_judged_by_page(sample) && limit.count() > 0) {
    track.moved_at = std::max(track.moved_at, track.activity.note(now, sample.activity, limit));
    if (sample.activity.state == 'R') track.moved_at = now;  // other programs may have the CPUs
  }
  // A read of a file shows as state D for a moment, so two samples must show the same wait.
  const bool is_on_disk = sample.activity.state == 'D' && sample.activity == last.activity;
  const bool is_stuck = sample.alive && (is_frozen(sample) || (is_on_disk && !moved));
  if (!is_stuck) {
    track.stuck_since.reset();
    track.is_named = false;
  } else if (!track.stuck_since) {
    track.stuck_since = now;
  }
  const bool is_same_place = sample.activity.waits_in == last.activity.waits_in;
  if (!sample.alive || sample.activity.state != 'D') {
    track.uninterruptible_since.reset();
  } else if (!track.uninterruptible_since || moved || !is_same_place) {
    track.uninterruptible_since = now;
  }
  track.last = sample;
  track.seen = true;
}

std::optional<nanoseconds> Watchdog::limit_of(const Track& track) const {
  const WorkerSample& worker = track.last;
  if (limits_.hang_timeout) {
    const bool is_on_disk = !is_judged_by_page(worker) && worker.activity.state == 'D';
    return *limits_.hang_timeout * (is_on_disk ? kDiskFactor : 1);
  }
  if (!is_judged_by_page(worker) || track.step_times.empty()) return std::nullopt;
  if (worker.phase == Phase::saving) return std::nullopt;  // takes as long as its disk needs
  // A program need not write its page while it evaluates.
  if (worker.phase == Phase::evaluating && !track.wrote_in_phase) return std::nullopt;
  std::vector<nanoseconds> times = track.step_times;
  const auto p99 = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 99 / 100);
  std::nth_element(times.begin(), p99, times.end());
  return std::max<nanoseconds>(kShortestLimit, kStepFactor * *p99);
}

bool Watchdog::hangs(nanoseconds now, const Track& track) const {
  if (!lives(track.last)) return false;
  const std::optional<nanoseconds> limit = limit_of(track);
  return limit && now - track.moved_at >= *limit;
}

/// Whether the worker has only polled in a loop for as long as the limit.
bool Watchdog::spins(nanoseconds now, const Track& track) const {
  if (!lives(track.last) || is_judged_by_page(track.last) || !limits_.hang_timeout) return false;
  return now - std::max(track.reported_at, track.activity.spins_since()) >= *limits_.hang_timeout;
}

/// Whether a worker that hangs by its page may only be waiting for a worker that does not hang.
/// Inside a collective it may wait for any rank outside. Elsewhere it may wait for a rank that
/// evaluates, saves or loads: programs that mark no collectives let rank 0 do that while the others
/// stand in a barrier.
bool Watchdog::waits_for_others(nanoseconds now, const Track& track) const {
  return std::ranges::any_of(tracks_, [&](const Track& other) {
    if (!lives(other.last) || hangs(now, other) || is_frozen(other.last)) return false;
    if (track.last.in_collective) return !other.last.in_collective;
    return is_judged_by_page(other.last) && !is_step(other.last.phase);
  });
}

/// After a long time without samples this agent, or the whole machine, has slept. Then the workers'
/// silence means nothing, so all times of their progress start again.
void Watchdog::reset_after_gap(nanoseconds now) {
  if (now - std::exchange(looked_at_, now) < default_limit() / 2) return;
  for (Track& track : tracks_) {
    track.moved_at = track.reported_at = track.step_at = now;
    track.activity = ActivityWindow();
    track.uninterruptible_since.reset();
  }
}

/// A worker with a page can be found to hang by itself. A worker without one only shows that it
/// does nothing, like any rank that waits for another. So the job hangs only if all of them do, or
/// if that worker is frozen. Some may spin, if at least one has slept all the time outside a wait
/// for peers.
bool Watchdog::is_job_hung(nanoseconds now) const {
  std::size_t living = 0;
  std::size_t hung = 0;
  std::size_t spinning = 0;
  bool is_one_elsewhere = false;
  for (const Track& track : tracks_) {
    // Others may have waited for this worker, and go on now that it has ended.
    if (!track.last.alive && now - track.last.ended_at < default_limit()) return false;
    if (!lives(track.last)) continue;
    ++living;
    if (hangs(now, track)) {
      if (is_frozen(track.last)) return true;
      if (is_judged_by_page(track.last) && !waits_for_others(now, track)) return true;
      ++hung;
      const bool is_asleep = now - track.activity.sleeps_since() >= default_limit();
      is_one_elsewhere =
          is_one_elsewhere || (is_asleep && kind_of(track.last) == WaitKind::elsewhere);
    } else if (spins(now, track)) {
      ++spinning;
    }
  }
  // While one worker makes progress, the others may wait for it.
  if (hung == 0 || hung + spinning < living) return false;
  return spinning == 0 || is_one_elsewhere;
}

std::optional<Finding> Watchdog::find_hang(nanoseconds now) const {
  if (!is_job_hung(now)) return std::nullopt;
  std::vector<const Track*> living;
  std::map<std::string, std::size_t> places;
  bool is_one_inside = false;
  bool are_all_inside = true;
  bool has_each_a_page = true;
  bool is_one_with_page = false;
  for (const Track& track : tracks_) {
    if (!lives(track.last)) continue;
    living.push_back(&track);
    has_each_a_page = has_each_a_page && track.last.has_page;
    is_one_with_page = is_one_with_page || track.last.has_page;
    ++places[place_of(track.last)];
    is_one_inside = is_one_inside || track.last.in_collective;
    are_all_inside = are_all_inside && track.last.in_collective;
  }
  // A worker that polls in a loop or makes progress is not suspected, unless it is frozen.
  std::erase_if(living, [&](const Track* track) {
    const bool goes_on = now - track->moved_at < default_limit() / 2;
    return !is_frozen(track->last) && (spins(now, *track) || goes_on);
  });
  std::vector<std::pair<Suspicion, const Track*>> suspects;
  for (const Track* const track : living) {
    const WorkerSample& worker = track->last;
    Suspicion suspicion;
    suspicion.is_frozen = is_frozen(worker);
    suspicion.is_uninterruptible = worker.activity.state == 'D';
    suspicion.is_outside_collective = worker.has_page && !worker.in_collective && is_one_inside;
    if (has_each_a_page) suspicion.steps = are_all_inside ? -worker.step : worker.step;
    suspicion.companions = places[place_of(worker)];
    suspicion.kind = kind_of(worker);
    suspicion.moved_at = track->moved_at;
    suspicion.rank = worker.rank;
    suspects.emplace_back(suspicion, track);
  }
  std::ranges::sort(suspects,
                    [](const auto& a, const auto& b) { return a.first.order() < b.first.order(); });
  const auto& [first, culprit] = suspects.front();
  const bool is_tie = suspects.size() > 1 && suspects[1].first.evidence() == first.evidence();
  // A rank in a futex may be waiting for others, whatever the other evidence.
  const bool may_wait = !first.is_frozen && !first.is_uninterruptible &&
                        !first.is_outside_collective && first.kind == WaitKind::peers &&
                        suspects.size() > 1;
  Finding finding;
  finding.ends_round = true;
  finding.rank = culprit->last.rank;
  const bool is_stuck = first.is_frozen || first.is_uninterruptible;
  finding.is_guess = is_tie || may_wait || (!has_each_a_page && is_one_with_page && !is_stuck);
  finding.text = describe_hang(now, *culprit);
  if (finding.is_guess) {
    finding.text += ", as far as can be seen from outside: others wait in the same way";
  } else if (first.is_outside_collective) {
    finding.text += ", outside of the collective that others are in";
  }
  return finding;
}

std::string Watchdog::describe_hang(nanoseconds now, const Track& track) const {
  const WorkerSample& worker = track.last;
  std::string text =
      is_judged_by_page(worker) ? "made no step for " : "neither ran nor printed for ";
  text += seconds(now - track.moved_at) + where(worker);
  if (!limits_.hang_timeout) text += " (the limit is automatic, --hang-timeout sets another)";
  return text + "; it " + state_text(worker);
}

/// Finds an external rank that exited with 0 while another waits for a key that nobody sets. A
/// leaver that had joined the store is blamed first, as others counted on it. A leaver that never
/// joined is blamed only if all remaining ranks wait, so that nobody is left to set the key.
std::optional<Finding> Watchdog::find_early_exit(nanoseconds now) const {
  const Track* joined = nullptr;
  const Track* absent = nullptr;
  const Track* waiter = nullptr;  // the one that has waited longest
  bool do_all_wait = true;
  for (const Track& track : tracks_) {
    const WorkerSample& worker = track.last;
    if (!worker.alive) {
      const Track*& leaver = worker.joined_store ? joined : absent;
      const bool is_first = leaver == nullptr || worker.ended_at < leaver->last.ended_at;
      if (worker.ended_well && is_first) leaver = &track;
    } else if (!worker.waits_since) {
      do_all_wait = false;
    } else if (waiter == nullptr || *worker.waits_since < *waiter->last.waits_since) {
      waiter = &track;
    }
  }
  const Track* const leaver = joined != nullptr ? joined : do_all_wait ? absent : nullptr;
  if (leaver == nullptr || waiter == nullptr) return std::nullopt;
  const nanoseconds since = std::max(*waiter->last.waits_since, leaver->last.ended_at);
  // If all remaining ranks wait, that is a hang, and the user may have set a shorter limit.
  nanoseconds patience = kStoreWait;
  if (do_all_wait && limits_.hang_timeout) patience = std::min(patience, *limits_.hang_timeout);
  if (now - since < patience) return std::nullopt;
  return Finding{true,
                 leaver->last.rank,
                 std::string("left with exit code 0") +
                     (leaver == joined ? "" : " before it had joined the others") + ", and rank " +
                     std::to_string(waiter->last.rank) + " has waited " + seconds(now - since) +
                     " since for a key that nobody sets"};
}

/// Finds the rank that has been longest in one uninterruptible sleep, beyond the user's limit.
std::optional<Finding> Watchdog::find_uninterruptible(nanoseconds now) const {
  if (!limits_.uninterruptible_timeout) return std::nullopt;
  const Track* longest = nullptr;
  for (const Track& track : tracks_) {
    const auto& since = track.uninterruptible_since;
    if (!since || now - *since < *limits_.uninterruptible_timeout) continue;
    if (longest == nullptr || *since < *longest->uninterruptible_since) longest = &track;
  }
  if (longest == nullptr) return std::nullopt;
  Finding finding;
  finding.ends_round = true;
  finding.rank = longest->last.rank;
  finding.text = state_text(longest->last) + where(longest->last) + ", for " +
                 seconds(now - *longest->uninterruptible_since) + " (the limit is " +
                 kUninterruptibleVariable + ")";
  finding.is_final = true;
  return finding;
}

std::vector<Finding> Watchdog::note_samples(nanoseconds now,
                                            std::span<const WorkerSample> samples) {
  tracks_.resize(samples.size());
  reset_after_gap(now);
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Track& track = tracks_[i];
    follow(now, samples[i], track);
    if (!track.stuck_since || track.is_named || now - *track.stuck_since < kFrozenFor) continue;
    track.is_named = true;
    findings.push_back(Finding{false, samples[i].rank, state_text(samples[i]) + where(samples[i])});
  }
  // The first two name the cause, find_hang() only a suspect, so they come first.
  std::optional<Finding> end = find_early_exit(now);
  if (!end) end = find_uninterruptible(now);
  if (!end) end = find_hang(now);
  if (end) findings.push_back(std::move(*end));
  return findings;
}

std::vector<int> Watchdog::frozen(nanoseconds at_least) const {
  std::vector<int> ranks;
  for (const Track& track : tracks_) {
    const bool is_stuck = track.stuck_since && looked_at_ - *track.stuck_since >= at_least;
    if (track.last.alive && is_stuck && is_frozen(track.last)) ranks.push_back(track.last.rank);
  }
  return ranks;
}

}  // namespace ddp::launcher
