// What the kernel tells of a process that tells nothing itself, and what of it counts as progress.
// Source of the thresholds: two ranks of Python's DDP over Gloo, torch 2.11. A rank that is stuck
// uses 0.5 % of a core all the same (Gloo's epoll and run-loop threads), its main thread nothing;
// monitors beside it (of a dashboard, of a progress bar) use a few per cent. A rank that trains
// uses a core. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace ddp::launcher {

/// Of a process with all that it has started. A wrapper that waits for its child (a shell, an outer
/// launcher) is looked through: state and channel are those of the child's main thread.
struct Activity {
  char state = '?';              // of the main thread: R, S, D, T, ... (proc(5))
  std::string waits_in;          // the kernel function it waits in (proc(5), wchan), or empty
  std::uint64_t main_ticks = 0;  // CPU time of that thread, in clock ticks
  std::uint64_t ticks = 0;       // of all threads and processes
  std::uint64_t voluntary_switches = 0;  // how often that thread has begun to wait
  std::uint64_t minor_faults = 0;        // minor page faults of all: memory that is new to them
  std::uint64_t io_bytes = 0;            // read and written by all: files, pipes
  std::uint64_t resident_bytes = 0;      // of the process; looked at closely: of all. 0: not known
  bool operator==(const Activity&) const = default;
};

/// Where a main thread is, what others wait for first.
enum class WaitKind {
  elsewhere,  // it runs, sleeps, or waits for a file, a pipe, a child
  poll,       // for one of several things: a loader process, a socket
  peers,      // in a futex or a socket, as in a collective
};

/// Names of kernel functions differ between releases: they are known by what they contain.
WaitKind wait_kind(const Activity& activity);

/// The looks at one process: since when has it done next to nothing?
class ActivityWindow {
 public:
  static constexpr double kMainShare = 0.02;       // of a core, over the limit
  static constexpr double kAllShare = 0.10;        // of a core, over the limit: with its helpers
  static constexpr double kBytesPerSecond = 4096;  // over the limit
  static constexpr double kSpinShare = 0.1;        // of a core, which others may want, too
  static constexpr double kSpinFaults = 10;        // per second
  static constexpr int kPointsPerLimit = 64;
  static constexpr std::size_t kMaxPoints = 1024;

  /// Takes a look in. Returns the time from which on it has used no more than these shares of
  /// `limit`.
  std::chrono::nanoseconds note(std::chrono::nanoseconds now,
                                const Activity& activity,
                                std::chrono::nanoseconds limit);

  /// Since when every sample has found it running with almost no new memory and no I/O, as in a
  /// busy wait. `now`: the newest sample did not.
  [[nodiscard]] std::chrono::nanoseconds spins_since() const { return spin_.at; }

  /// Since when its main thread has been in one and the same wait; one that looks again and again
  /// whether something has come is in many.
  [[nodiscard]] std::chrono::nanoseconds sleeps_since() const { return nap_.at; }

 private:
  struct Point {
    std::chrono::nanoseconds at{0};
    Activity activity;
  };
  // Looks that showed a change, some time apart; since the second of them no more than the shares
  // was used.
  std::deque<Point> points_;
  Point spin_;
  Point nap_;
};

}  // namespace ddp::launcher
