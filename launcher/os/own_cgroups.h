// The cgroups of this process, read once: the kernel needs a tenth of a millisecond for the list of
// mounts, and a start asks four times. A running agent is never moved to another cgroup.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

/// As cgroup_directories() of plan/start/cgroups, for this process: its own first, then its
/// ancestors. Trap: call it in the main thread alone.
const std::vector<std::string>& own_cgroups(const std::string& controller);

}  // namespace ddp::launcher
