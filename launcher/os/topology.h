// How this node's CPUs lie: NUMA nodes, sockets, cores and caches, as /sys tells.
#pragma once

#include <filesystem>
#include <vector>

#include "launcher/plan/start/numa.h"

namespace ddp::launcher {

/// The CPUs of our own affinity mask, ascending. `system` is /sys/devices/system. What it does not
/// say is one node, one socket, a core each and one cache per socket.
std::vector<CpuPlace> read_topology(const std::filesystem::path& system = "/sys/devices/system");

}  // namespace ddp::launcher
