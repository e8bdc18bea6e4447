// The resources of this node: usable CPUs, descriptors, processes; and random ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/plan/doctor/node_health.h"
#include "launcher/plan/start/cpu_share.h"

namespace ddp::launcher {

/// The CPUs of this machine, of our affinity mask, and of the quota of our cgroups (v1 or v2).
CpuLimits find_cpu_limits();

/// Descriptors that this process has open.
int count_descriptors();

/// Raises the limit of descriptors to the hard one when it is below `needed`; workers inherit it.
/// Returns the limit.
int raise_descriptor_limit(int needed);

/// A limit that does not suffice.
struct ProcessShortage {
  std::int64_t left = 0;
  std::string limit;  // "the limit of processes of this user is 6 (ulimit -u), 3 in use"
};

/// Checks whether `needed` more processes and threads may be started, by RLIMIT_NPROC, which counts
/// all of the user's, and pids.max of our cgroups. Nothing: they may, or it is not known.
std::optional<ProcessShortage> find_process_shortage(int needed);

/// A random run id or agent id: 32 hexadecimal digits. Errors: SystemError.
std::string make_id();

/// For `ddp-launch doctor`: kernel, machine, memory, /dev/shm, limits and driver. Callers fill in
/// the rest. Errors: none; a value that cannot be read stays as in an empty NodeHealth.
NodeHealth read_node_health();

}  // namespace ddp::launcher
