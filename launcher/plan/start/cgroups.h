// Where a process's cgroups are, v1 or v2, and how to read their files. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

/// The directories of a process's cgroup and of its visible ancestors, innermost first.
/// `proc_cgroup` is the text of /proc/PID/cgroup, `mounts` that of /proc/self/mountinfo;
/// `controller` names a v1 hierarchy ("cpu"), empty is the v2 one. Returns nothing if the hierarchy
/// is not mounted. Source: cgroups(7), proc_pid_mountinfo(5).
std::vector<std::string> cgroup_directories(std::string_view proc_cgroup,
                                            std::string_view mounts,
                                            std::string_view controller);

/// CPUs that a cgroup may use, from the text of its cpu.max ("150000 100000" is 1.5). Nothing for
/// "max" and for an invalid text.
std::optional<double> read_cpu_max(std::string_view text);

/// The same for v1, from cpu.cfs_quota_us and cpu.cfs_period_us. Nothing for a quota of -1.
std::optional<double> read_cfs_quota(std::string_view quota, std::string_view period);

/// A file that is one number: pids.max, pids.current. Nothing for "max" and for an invalid text.
std::optional<std::int64_t> read_count(std::string_view text);

/// The number behind `name` in a file of lines "NAME NUMBER": memory.events, memory.oom_control.
std::optional<std::int64_t> read_entry(std::string_view text, std::string_view name);

}  // namespace ddp::launcher
