// What this node has: CPUs that we may use, GPUs that are there, descriptors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddp::launcher {

/// CPUs of the affinity mask that the CPU quota of our cgroups (v1 or v2) lets us use, at least 1.
int count_cpus();

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

/// Looks whether `needed` more processes and threads may be started: RLIMIT_NPROC, which counts all
/// of the user's, and pids.max of our cgroups. Nothing when they may, or when nobody knows.
std::optional<ProcessShortage> find_process_shortage(int needed);

/// For a job (its run id) or an agent (its agent id): 32 hexadecimal digits. Errors: SystemError.
std::string make_id();

/// `bytes` random bytes as hexadecimal text. Errors: SystemError.
std::string random_hex(int bytes);

}  // namespace ddp::launcher
