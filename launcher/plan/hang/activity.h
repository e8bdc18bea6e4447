// What the kernel shows of a process without a progress page, and which of it counts as progress.
// Source of the thresholds: two ranks of Python's DDP over Gloo, torch 2.11. A stuck rank still
// uses 0.5 % of a core (Gloo's epoll and run-loop threads), and its main thread uses nothing.
// Monitors in the process (of a dashboard, of a progress bar) use a few per cent. A training rank
// uses a whole core. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace ddp::launcher {

/// One sample of a process and all that it has started. Of a wrapper that waits for its child (a
/// shell, an outer launcher), `state` and `waits_in` are those of the child's main thread.
struct Activity {
  char state = '?';                      // main thread: R, S, D, T, ... (proc(5))
  std::string waits_in;                  // kernel function it waits in (proc(5), wchan), or empty
  std::uint64_t main_ticks = 0;          // CPU time of that thread, in clock ticks
  std::uint64_t ticks = 0;               // of all threads and processes
  std::uint64_t voluntary_switches = 0;  // waits that the main thread began
  std::uint64_t minor_faults = 0;        // page faults of all on new memory
  std::uint64_t io_bytes = 0;            // read and written by all; files, pipes
  std::uint64_t resident_bytes = 0;      // sample_process: one process; 0: unknown
  bool operator==(const Activity&) const = default;
};

/// What a main thread waits for, the likeliest culprit of a hang first.
enum class WaitKind {
  elsewhere,  // runs, sleeps, or waits for a file, a pipe, a child
  poll,       // waits for one of several: a loader process, a socket
  peers,      // waits in a futex or a socket, as in a collective
};

/// Matches parts of kernel function names, as the names differ between releases.
WaitKind wait_kind(const Activity& activity);

/// The samples of one process. It answers since when the process has done next to nothing.
class ActivityWindow {
 public:
  static constexpr double kMainShare = 0.02;       // of a core, mean over the limit
  static constexpr double kAllShare = 0.10;        // the same, with helpers
  static constexpr double kBytesPerSecond = 4096;  // mean over the limit
  static constexpr double kSpinShare = 0.1;        // of a core; it may have to share one
  static constexpr double kSpinFaults = 10;        // per second
  static constexpr int kPointsPerLimit = 64;
  static constexpr std::size_t kMaxPoints = 1024;

  /// Adds a sample. Returns since when the process has been idle. Idle: averaged over `limit`, its
  /// main thread stays below kMainShare, all threads below kAllShare, its I/O below
  /// kBytesPerSecond.
  std::chrono::nanoseconds note(std::chrono::nanoseconds now,
                                const Activity& activity,
                                std::chrono::nanoseconds limit);

  /// Since when every sample has shown the process running with almost no new memory and no I/O, as
  /// in a busy wait. It is the newest sample's time if that sample did not.
  [[nodiscard]] std::chrono::nanoseconds spins_since() const { return spin_.at; }

  /// Since when the main thread has been in one wait. A thread that polls begins many waits.
  [[nodiscard]] std::chrono::nanoseconds sleeps_since() const { return asleep_since_.at; }

 private:
  struct Point {
    std::chrono::nanoseconds at{0};
    Activity activity;
  };
  // Samples that showed a change, some time apart. Since the second of them the process has used no
  // more than the shares.
  std::deque<Point> points_;
  Point spin_;
  Point asleep_since_;
};

}  // namespace ddp::launcher
