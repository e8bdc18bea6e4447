#include "launcher/plan/start/numa.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/text/parse_whole.h"

namespace ddp::launcher {
namespace {

using Cpus = std::vector<int>;

/// What the rules place on NUMA nodes: the GPUs, or the workers themselves.
struct Units {
  std::vector<int> nodes;  // NUMA node of each
  std::string note;
};

std::vector<int> nodes_of(const std::vector<CpuPlace>& places) {
  std::set<int> nodes;
  for (const CpuPlace& place : places)
    nodes.insert(place.node);
  return {nodes.begin(), nodes.end()};
}

Units choose_units(const std::vector<CpuPlace>& places,
                   int workers,
                   const std::vector<int>& gpu_nodes) {
  const std::vector<int> nodes = nodes_of(places);
  const bool are_known = std::ranges::all_of(gpu_nodes, [](int node) { return node >= 0; });
  // With one NUMA node it does not matter that /sys shows -1 for a GPU, as on machines without
  // NUMA.
  if (static_cast<int>(gpu_nodes.size()) >= workers && (are_known || nodes.size() == 1)) {
    Units units;
    for (const int node : gpu_nodes)
      units.nodes.push_back(node >= 0 ? node : nodes.front());
    return units;
  }
  std::string why = std::to_string(gpu_nodes.size()) + " visible GPUs are too few";
  if (gpu_nodes.empty()) why = "no GPU is visible";
  if (!are_known) why = "the NUMA nodes of the GPUs are not known";
  Units units;
  const int count = static_cast<int>(nodes.size());
  units.note = why + "; " + std::to_string(workers) +
               (workers == 1 ? " worker is" : " workers are") + " spread over " +
               std::to_string(count) + (count == 1 ? " NUMA node" : " NUMA nodes");
  for (int worker = 0; worker < workers && count > 0; ++worker) {
    const auto index =
        static_cast<std::size_t>(worker) * nodes.size() / static_cast<std::size_t>(workers);
    units.nodes.push_back(nodes[index]);
  }
  return units;
}

/// CPUs of one node, grouped by a member of CpuPlace.
std::map<int, Cpus> group_by(const std::vector<CpuPlace>& places, int node, int CpuPlace::*member) {
  std::map<int, Cpus> groups;
  for (const CpuPlace& place : places) {
    if (place.node == node) groups[place.*member].push_back(place.cpu);
  }
  return groups;
}

Cpus cpus_of_node(const std::vector<CpuPlace>& places, int node) {
  Cpus cpus;
  for (const CpuPlace& place : places) {
    if (place.node == node) cpus.push_back(place.cpu);
  }
  return cpus;
}

/// A node belongs to the socket of its lowest CPU.
std::optional<int> socket_of_node(const std::vector<CpuPlace>& places, int node) {
  for (const CpuPlace& place : places) {
    if (place.node == node) return place.package;
  }
  return {};
}

Cpus cpus_of_socket(const std::vector<CpuPlace>& places, int node) {
  Cpus cpus;
  for (const CpuPlace& place : places) {
    if (socket_of_node(places, place.node) == socket_of_node(places, node))
      cpus.push_back(place.cpu);
  }
  return cpus;
}

/// Share number `position` of `count`, in whole cores.
Cpus share_of_cores(const std::map<int, Cpus>& cores, std::size_t position, std::size_t count) {
  // Whole cores, as two workers on the threads of one core would share its arithmetic units and its
  // first caches.
  const std::size_t each = cores.size() / count;
  const std::size_t left_over = cores.size() % count;
  const std::size_t begin = position * each + std::min(position, left_over);
  const std::size_t end = begin + each + (position < left_over ? 1 : 0);
  Cpus cpus;
  std::size_t index = 0;
  for (const auto& [core, threads] : cores) {
    if (index >= begin && index < end) cpus.insert(cpus.end(), threads.begin(), threads.end());
    ++index;
  }
  std::ranges::sort(cpus);
  return cpus;
}

Cpus core_complex(const std::map<int, Cpus>& caches, std::size_t position) {
  std::vector<Cpus> sorted;
  for (const auto& [cache, cpus] : caches)
    sorted.push_back(cpus);
  // Stable: caches of one size stay in the order of their CPUs, on every node of the same kind.
  std::ranges::stable_sort(sorted,
                           [](const Cpus& a, const Cpus& b) { return a.size() > b.size(); });
  // More workers than caches share them in turn.
  return sorted.empty() ? Cpus() : sorted[position % sorted.size()];
}

/// The place of one unit among those of its NUMA node.
struct Share {
  int node = -1;
  std::size_t position = 0;
  std::size_t sharing = 1;
};

Share find_share(const std::vector<int>& nodes, std::size_t unit) {
  if (unit >= nodes.size()) return {};
  Share share{nodes[unit], 0, 0};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] != share.node) continue;
    if (i < unit) ++share.position;
    ++share.sharing;
  }
  return share;
}

Cpus cpus_of_share(const std::string& mode,
                   const std::vector<CpuPlace>& places,
                   const Share& share) {
  if (mode == "node") return cpus_of_node(places, share.node);
  if (mode == "socket") return cpus_of_socket(places, share.node);
  if (mode == "core-complex")
    return core_complex(group_by(places, share.node, &CpuPlace::cache), share.position);
  const std::map<int, Cpus> cores = group_by(places, share.node, &CpuPlace::core);
  if (!cores.empty() && cores.size() < share.sharing) {
    throw UsageError("--numa-binding exclusive: NUMA node " + std::to_string(share.node) + " has " +
                     std::to_string(cores.size()) + " physical cores that we may use, for " +
                     std::to_string(share.sharing) +
                     " shares. Start fewer workers, or use --numa-binding node.");
  }
  return share_of_cores(cores, share.position, share.sharing);
}

}  // namespace

Bindings bind_workers(const std::string& mode,
                      const std::vector<CpuPlace>& places,
                      int workers,
                      const std::vector<int>& gpu_nodes) {
  const Units units = choose_units(places, workers, gpu_nodes);
  Bindings bindings;
  bindings.note = units.note;
  for (std::size_t worker = 0; worker < static_cast<std::size_t>(workers); ++worker) {
    const Share share = find_share(units.nodes, worker);
    Cpus cpus = cpus_of_share(mode, places, share);
    if (cpus.empty()) {
      throw UsageError("--numa-binding " + mode + ": worker " + std::to_string(worker) +
                       " would get no CPU: none of NUMA node " + std::to_string(share.node) +
                       " is in our own affinity mask. Widen it (taskset, cpuset), or leave "
                       "--numa-binding out.");
    }
    bindings.cpus.push_back(std::move(cpus));
  }
  return bindings;
}

std::vector<int> read_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find_first_of(",\n"));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const auto first = take_number<int>(part);
    if (!first) continue;
    int last = *first;
    if (part.starts_with('-')) {
      part.remove_prefix(1);
      last = take_number<int>(part).value_or(last);
    }
    for (int cpu = *first; cpu <= last; ++cpu)
      cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace ddp::launcher
