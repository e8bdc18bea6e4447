// What holds a worker up from outside, as the kernel of its node tells.
#pragma once

#include <chrono>
#include <cstdint>

namespace ddp::launcher {

/// Sums since the worker or its node began; only their growth means anything. What the kernel does
/// not tell is 0.
struct NodeDelays {
  std::chrono::nanoseconds core_wait{0};  // its main thread was ready and had no core
  std::uint64_t quota_periods = 0;        // of the cgroup whose CPU quota was used up most often
  std::uint64_t throttled_periods = 0;    // of these, those in which it was used up
  std::chrono::nanoseconds disk_wait{0};  // any task of its node waited for a disk
  int core = 0;                           // on which it ran last
  std::chrono::nanoseconds hot{0};        // that core was slowed down by its temperature
  std::uint64_t major_faults = 0;         // pages of its memory that had to be read from a disk
  bool operator==(const NodeDelays&) const = default;
};

}  // namespace ddp::launcher
