// The cgroups of this process, as the kernel lists them: read once, since the list of mounts takes
// the kernel a tenth of a millisecond, and a start asks four times. Nobody moves a running agent to
// another cgroup.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

/// As cgroup_directories() of plan/start/cgroups, of this process: ours first, then those above it.
/// Trap: for the main thread alone.
const std::vector<std::string>& own_cgroups(const std::string& controller);

}  // namespace ddp::launcher
