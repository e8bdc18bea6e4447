// Reads what holds workers up from outside: /proc, the cgroups, and the thermal counters of their
// cores. Linux's files, some of which a kernel or a container may lack.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/plan/hang/node_delays.h"

namespace ddp::launcher {

/// For one look at the workers of a node, which share most of these files.
class DelayReader {
 public:
  /// Costs five small reads, and those of a cgroup once.
  NodeDelays read(pid_t pid);

 private:
  struct Quota {
    std::uint64_t periods = 0;
    std::uint64_t throttled = 0;
  };
  Quota quota_of(pid_t pid);

  std::optional<std::chrono::nanoseconds> disk_wait_;
  std::map<std::string, Quota> quotas_;  // by the text of /proc/PID/cgroup
};

}  // namespace ddp::launcher
