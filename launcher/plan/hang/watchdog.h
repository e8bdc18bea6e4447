// Decides which worker hangs, from samples that the agents take about once a second. Pure. A worker
// with a progress page is judged by its page while it loads, trains, evaluates, saves or stops.
// Before and after, and without a page, a worker is judged by what the kernel shows (where its main
// thread waits, how much it computes, reads and writes), by its output, and by its writes to our
// store. A little CPU time is no progress (plan/hang/activity): the threads of Gloo and NCCL use
// some in a stuck rank, too. Promises: it names the worker that others wait for (a frozen one, one
// in an uninterruptible sleep, one outside a collective that others are in, the one that is behind,
// the one that waits elsewhere), not those that wait. That a process exists is never a sign of
// progress.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/progress/rank_progress.h"
#include "launcher/plan/hang/activity.h"
#include "launcher/plan/hang/node_delays.h"

namespace ddp::launcher {

/// With more workers on a node, samples have no times spent and no delays, so that they fit into a
/// frame.
inline constexpr std::size_t kMostWithTimes = 512;

/// One sample of one worker. Times are steady and count from any fixed point.
struct WorkerSample : RankProgress {
  std::int64_t checkpoint_step = -1;  // -1: none yet
  std::int64_t written_ns = 0;        // time of its last page write, from the page
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // NaN: not evaluated yet
  Activity activity;
  std::optional<NodeDelays> delays;                     // of a worker whose page tells of its time
  std::uint64_t store_writes = 0;                       // its requests that changed our store
  bool ended_well = false;                              // an external program that exited with 0
  std::chrono::nanoseconds ended_at{0};                 // valid when `alive` is false
  bool joined_store = false;                            // has been a client of our store
  bool is_in_store = false;                             // has a connection to our store now
  std::optional<std::chrono::nanoseconds> waits_since;  // in our store, for a key not set
};

/// Whether the worker is judged by its page: only from loading to finished. Before and after, it is
/// judged like a program without a page.
inline bool is_judged_by_page(const WorkerSample& sample) {
  return sample.has_page && is_under_way(sample.phase);
}

/// torchrun's variable for WatchLimits::uninterruptible_timeout, in seconds.
inline constexpr const char* kUninterruptibleVariable =
    "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT";

struct WatchLimits {
  /// Set by the user. Nothing: each worker with a page has an automatic limit.
  std::optional<std::chrono::nanoseconds> hang_timeout;
  /// The same, for one uninterruptible sleep (state D). Nothing: a warning is all.
  std::optional<std::chrono::nanoseconds> uninterruptible_timeout{};
};

/// A warning to print, or the reason to end the round.
struct Finding {
  bool ends_round = false;
  int rank = 0;      // the rank concerned; of a hang: the root cause
  std::string text;  // what is wrong with that rank
  /// Whether another rank may be the root cause of the hang, as others wait alike; stacks may say
  /// more.
  bool is_guess = false;
  /// Whether no round may follow: what that rank waits for would hold a new worker, too.
  bool is_final = false;
  bool operator==(const Finding&) const = default;
};

class Watchdog {
 public:
  static constexpr std::chrono::seconds kShortestLimit{60};  // of automatic limits
  static constexpr int kStepFactor = 10;                     // times the p99 of the step time
  static constexpr int kDiskFactor = 10;                     // times the limit, in state D
  static constexpr std::chrono::seconds kFrozenFor{3};       // before a frozen worker is reported
  static constexpr std::chrono::seconds kStoreWait{10};      // for a key, after a rank has left

  explicit Watchdog(WatchLimits limits) : limits_(limits) {}

  /// Adds one sample of each worker of the round. A worker that freezes or stays in state D gives
  /// one warning each time. At most one finding ends the round.
  [[nodiscard]] std::vector<Finding> note_samples(std::chrono::nanoseconds now,
                                                  std::span<const WorkerSample> samples);

  /// Ranks that have been frozen for that long. They are the root cause when their peers give up.
  [[nodiscard]] std::vector<int> frozen(std::chrono::nanoseconds at_least = kFrozenFor) const;

 private:
  struct Track {
    WorkerSample last;
    bool seen = false;
    std::chrono::nanoseconds moved_at{0};     // last progress
    std::chrono::nanoseconds reported_at{0};  // last progress that its page, output or store showed
    std::chrono::nanoseconds step_at{0};      // last change of `step`
    std::vector<std::chrono::nanoseconds> step_times;  // ring of the newest
    std::size_t next_step_time = 0;
    ActivityWindow activity;
    bool wrote_in_phase = false;  // wrote its page since the phase began
    std::optional<std::chrono::nanoseconds> stuck_since;
    std::optional<std::chrono::nanoseconds> uninterruptible_since;  // in the same place
    bool is_named = false;
  };
  void follow(std::chrono::nanoseconds now, const WorkerSample& sample, Track& track) const;
  [[nodiscard]] std::optional<std::chrono::nanoseconds> limit_of(const Track& track) const;
  [[nodiscard]] bool hangs(std::chrono::nanoseconds now, const Track& track) const;
  [[nodiscard]] bool spins(std::chrono::nanoseconds now, const Track& track) const;
  [[nodiscard]] bool waits_for_others(std::chrono::nanoseconds now, const Track& track) const;
  void reset_after_gap(std::chrono::nanoseconds now);
  /// The limit for a worker without one of its own.
  [[nodiscard]] std::chrono::nanoseconds default_limit() const {
    return limits_.hang_timeout.value_or(kShortestLimit);
  }
  [[nodiscard]] bool is_job_hung(std::chrono::nanoseconds now) const;
  [[nodiscard]] std::optional<Finding> find_hang(std::chrono::nanoseconds now) const;
  [[nodiscard]] std::string describe_hang(std::chrono::nanoseconds now, const Track& track) const;
  [[nodiscard]] std::optional<Finding> find_early_exit(std::chrono::nanoseconds now) const;
  [[nodiscard]] std::optional<Finding> find_uninterruptible(std::chrono::nanoseconds now) const;

  WatchLimits limits_;
  std::vector<Track> tracks_;
  std::chrono::nanoseconds looked_at_{0};
};

}  // namespace ddp::launcher
