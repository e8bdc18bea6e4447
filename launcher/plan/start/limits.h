// What a job needs of a node's limits. Pure.
#pragma once

#include <optional>

namespace ddp::launcher {

/// Open descriptors that the launcher needs at most: `open` ones that it has already, and for each
/// worker two pipes, a pidfd and a progress page, with `logs` two log files.
int descriptors_needed(int open, int workers, bool logs);

/// Processes and threads that the launcher starts: the guard, the writers' threads (stdout, stderr,
/// with `logs` one for the files), the workers.
/// What a worker starts itself is not known.
int processes_needed(int workers, bool logs);

/// Of `cpus` in the affinity mask, those that a quota lets run all the time; at least 1.
int cpus_within(int cpus, std::optional<double> quota);

}  // namespace ddp::launcher
