// The descriptors, processes and CPUs that a job needs or may use on a node. Pure.
#pragma once

#include <optional>

namespace ddp::launcher {

/// The most descriptors that the launcher needs: `open` that it already has; per worker two pipes,
/// a pidfd and a progress page, with `logs` two log files; and some of its own.
int descriptors_needed(int open, int workers, bool logs);

/// Processes and threads that the launcher starts: the guard, the writers' threads (stdout, stderr,
/// with `logs` one for the files), the workers.
/// Processes that workers start are not counted.
int processes_needed(int workers, bool logs);

/// How many of `cpus` in the affinity mask a quota lets run all the time; at least 1.
int cpus_within(int cpus, std::optional<double> quota);

}  // namespace ddp::launcher
