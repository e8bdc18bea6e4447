#include "launcher/plan/watchdog.h"

#include <algorithm>
#include <tuple>

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kStepTimes = 512;  // of which the p99 is taken

bool is_stopped(char state) {
  return state == 'T' || state == 't';
}

bool is_training(Phase phase) {
  return phase == Phase::loading || phase == Phase::training || phase == Phase::evaluating ||
         phase == Phase::saving || phase == Phase::stopping;
}

std::string seconds(nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

std::string state_text(char state) {
  if (is_stopped(state)) return "is stopped (state T)";
  if (state == 'D') return "is in an uninterruptible sleep (state D)";
  return std::string("is in state ") + state;
}

std::string where(const WorkerSample& sample) {
  if (!sample.has_page) return "";
  return ", phase " + std::string(to_text(sample.phase)) + ", step " + std::to_string(sample.step);
}

}  // namespace

void Watchdog::follow(nanoseconds now, const WorkerSample& sample, Track& track) {
  const WorkerSample& last = track.last;
  const bool stepped = track.seen && sample.step > last.step;
  const bool moved = !track.seen || sample.step != last.step || sample.phase != last.phase ||
                     sample.has_page != last.has_page ||
                     (sample.has_page ? sample.written_ns != last.written_ns
                                      : sample.cpu_ticks != last.cpu_ticks ||
                                            sample.output_bytes != last.output_bytes);
  if (stepped) {
    const nanoseconds each = (now - track.step_at) / (sample.step - last.step);
    if (track.step_times.size() < kStepTimes) track.step_times.resize(track.step_times.size() + 1);
    track.step_times[track.next_step_time++ % kStepTimes] = each;
  }
  if (stepped || !track.seen || sample.phase != last.phase) track.step_at = now;
  if (moved) track.moved_at = now;
  const bool is_frozen =
      sample.alive && (is_stopped(sample.state) || (sample.state == 'D' && !moved));
  if (!is_frozen) {
    track.frozen_since.reset();
    track.is_named = false;
  } else if (!track.frozen_since) {
    track.frozen_since = now;
  }
  track.last = sample;
  track.seen = true;
}

std::optional<nanoseconds> Watchdog::limit_of(const Track& track) const {
  if (limits_.hang_timeout) return limits_.hang_timeout;
  if (!limits_.own_worker || track.step_times.empty()) return std::nullopt;
  if (track.last.phase == Phase::saving) return std::nullopt;  // as slow as its disk
  std::vector<nanoseconds> times = track.step_times;
  const auto p99 = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 99 / 100);
  std::nth_element(times.begin(), p99, times.end());
  return std::max<nanoseconds>(kShortestLimit, kStepFactor * *p99);
}

bool Watchdog::hangs(nanoseconds now, const Track& track) const {
  if (!track.last.alive || track.last.state == 'Z') return false;  // it has ended
  if (track.last.has_page && !is_training(track.last.phase)) return false;
  const std::optional<nanoseconds> limit = limit_of(track);
  return limit && now - track.moved_at >= *limit;
}

/// A worker with a page hangs by itself. A foreign one shows only that it neither runs nor prints,
/// as any that waits for another does: so all of them have to, or it is stopped.
std::optional<Finding> Watchdog::find_hang(nanoseconds now) const {
  const Track* culprit = nullptr;
  bool somebody_moves = false;
  bool found = false;
  const auto precedence = [](const Track& track) {
    return std::tuple(!is_stopped(track.last.state),
                      track.last.state != 'D',
                      track.last.step,
                      track.moved_at,
                      track.last.rank);
  };
  for (const Track& track : tracks_) {
    if (!track.last.alive || track.last.state == 'Z') continue;
    const bool hung = hangs(now, track);
    found = found || (hung && (track.last.has_page || is_stopped(track.last.state)));
    somebody_moves = somebody_moves || !hung;
    if (culprit == nullptr || precedence(track) < precedence(*culprit)) culprit = &track;
  }
  if (culprit == nullptr || (!found && somebody_moves)) return std::nullopt;
  const WorkerSample& worker = culprit->last;
  const std::string what = worker.has_page ? "made no step for " : "neither ran nor printed for ";
  return Finding{
      true,
      worker.rank,
      what + seconds(now - culprit->moved_at) + where(worker) + "; it " + state_text(worker.state)};
}

/// A foreign rank has left with 0, and another waits for a key that nobody sets.
std::optional<Finding> Watchdog::find_left_alone(nanoseconds now) const {
  const Track* leaver = nullptr;
  for (const Track& track : tracks_) {
    const WorkerSample& worker = track.last;
    if (worker.alive || !worker.ended_well || !worker.joined_store) continue;
    if (leaver == nullptr || worker.ended_at < leaver->last.ended_at) leaver = &track;
  }
  if (leaver == nullptr) return std::nullopt;
  for (const Track& track : tracks_) {
    const WorkerSample& worker = track.last;
    if (!worker.alive || worker.has_page || !worker.waits_since) continue;
    const nanoseconds since = std::max(*worker.waits_since, leaver->last.ended_at);
    if (now - since < kStoreWait) continue;
    return Finding{true,
                   leaver->last.rank,
                   "left with exit code 0, and rank " + std::to_string(worker.rank) +
                       " has waited " + seconds(now - since) + " since for a key that nobody sets"};
  }
  return std::nullopt;
}

std::vector<Finding> Watchdog::look(nanoseconds now, std::span<const WorkerSample> samples) {
  tracks_.resize(samples.size());
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Track& track = tracks_[i];
    follow(now, samples[i], track);
    if (!track.frozen_since || track.is_named || now - *track.frozen_since < kFrozenFor) continue;
    track.is_named = true;
    findings.push_back(
        Finding{false, samples[i].rank, state_text(samples[i].state) + where(samples[i])});
  }
  std::optional<Finding> end = find_hang(now);
  if (!end) end = find_left_alone(now);
  if (end) findings.push_back(std::move(*end));
  return findings;
}

std::vector<int> Watchdog::frozen() const {
  std::vector<int> ranks;
  for (const Track& track : tracks_) {
    if (track.last.alive && track.is_named && is_stopped(track.last.state)) {
      ranks.push_back(track.last.rank);
    }
  }
  return ranks;
}

}  // namespace ddp::launcher
