// What a job needs of a node's limits, and what the files that state them say. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

/// Open descriptors that the launcher needs at most: `open` ones that it has already, and for each
/// worker two pipes, a pidfd and a progress page, with `logs` two log files.
int descriptors_needed(int open, int workers, bool logs);

/// CPUs that a cgroup may use, from the text of its cpu.max ("150000 100000" is 1.5). Nothing for
/// "max" and for what cannot be read.
std::optional<double> read_cpu_max(std::string_view text);

/// The process's own cgroup (v2) and those above it, from the text of /proc/self/cgroup: "/a/b",
/// "/a", "". Empty where there is no v2 hierarchy. Source: cgroups(7).
std::vector<std::string> read_cgroups(std::string_view text);

/// Of `cpus` in the affinity mask, those that a quota lets run all the time; at least 1.
int cpus_within(int cpus, std::optional<double> quota);

}  // namespace ddp::launcher
