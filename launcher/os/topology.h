// The topology of this node's CPUs: NUMA nodes, sockets, cores and caches, from /sys.
#pragma once

#include <filesystem>
#include <vector>

#include "launcher/plan/start/numa.h"

namespace ddp::launcher {

/// The CPUs of our own affinity mask, ascending. `system` is /sys/devices/system. Defaults for
/// missing files: one node, one socket, one core per CPU, one cache per socket.
std::vector<CpuPlace> read_topology(const std::filesystem::path& system = "/sys/devices/system");

}  // namespace ddp::launcher
