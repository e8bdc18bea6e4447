// Whether the threads of a node's ranks have a CPU each, for the user. Pure.
#pragma once

#include <optional>
#include <string>

namespace ddp::launcher {

/// What limits the CPUs of this process.
struct CpuLimits {
  int machine = 0;              // CPUs that are online; 0: not known
  int mask = 0;                 // of them in our affinity mask; 0: not known
  std::optional<double> quota;  // CPUs that our cgroups let us use
};

/// Who shares CPUs, what leaves so few, and what to do; nothing: each thread has a CPU. `ranks` on
/// this machine, each with so many `threads`.
std::optional<std::string> describe_cpu_shortage(const CpuLimits& limits, int ranks, int threads);

}  // namespace ddp::launcher
