#include "launcher/os/topology.h"

#include <map>
#include <string>
#include <system_error>

#include "common/files/files.h"
#include "launcher/plan/start/cgroups.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

std::vector<int> read_list(const fs::path& path) {
  return read_cpu_list(read_file(path).value_or(""));
}

int read_number(const fs::path& path, int fallback) {
  return static_cast<int>(read_count(read_file(path).value_or("")).value_or(fallback));
}

std::vector<int> allowed_cpus() {
  // Read the text instead of sched_getaffinity(2): it is a list of any length, with no guess at the
  // size of a mask.
  const std::string status = read_file("/proc/self/status").value_or("");
  const std::string name = "Cpus_allowed_list:\t";
  const std::size_t at = status.find(name);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size();
  return read_cpu_list(status.substr(begin, status.find('\n', begin) - begin));
}

std::map<int, int> nodes_by_cpu(const fs::path& system) {
  std::map<int, int> nodes;
  for (const int node : read_list(system / "node/online")) {
    for (const int cpu : read_list(system / ("node/node" + std::to_string(node)) / "cpulist"))
      nodes[cpu] = node;
  }
  return nodes;
}

/// The lowest CPU that shares the highest level of data cache.
int lowest_of_cache(const fs::path& cpu, int fallback) {
  int highest = -1;
  int lowest = fallback;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(cpu / "cache", ignored)) {
    const std::string type = read_file(entry.path() / "type").value_or("");
    if (!type.starts_with("Unified") && !type.starts_with("Data")) continue;
    const int level = read_number(entry.path() / "level", 0);
    const std::vector<int> shared = read_list(entry.path() / "shared_cpu_list");
    if (level <= highest || shared.empty()) continue;
    highest = level;
    lowest = shared.front();
  }
  return lowest;
}

}  // namespace

std::vector<CpuPlace> read_topology(const fs::path& system) {
  const std::map<int, int> nodes = nodes_by_cpu(system);
  std::vector<CpuPlace> places;
  for (const int cpu : allowed_cpus()) {
    const fs::path directory = system / ("cpu/cpu" + std::to_string(cpu));
    CpuPlace place;
    place.cpu = cpu;
    if (const auto node = nodes.find(cpu); node != nodes.end()) place.node = node->second;
    place.package = read_number(directory / "topology/physical_package_id", 0);
    const std::vector<int> siblings = read_list(directory / "topology/thread_siblings_list");
    // core_id is unique only within a socket, and may be missing; the lowest thread of a core
    // identifies it everywhere.
    place.core = siblings.empty() ? cpu : siblings.front();
    // Without caches in /sys (virtual machines): one per socket, with a number below 0, which no
    // CPU has.
    place.cache = lowest_of_cache(directory, -1 - place.package);
    places.push_back(place);
  }
  return places;
}

}  // namespace ddp::launcher
