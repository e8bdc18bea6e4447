#include "launcher/plan/doctor/health_tables.h"

#include <algorithm>
#include <vector>

#include "common/text/join_words.h"
#include "common/text/split.h"
#include "common/text/text_table.h"
#include "common/text/units.h"
#include "launcher/plan/doctor/health_text.h"

namespace ddp::launcher {
namespace {

/// That node's clock compared with node 0's, from node 0's check of it.
std::string clock_of(int node_rank, std::span<const NodeChecks> checks) {
  if (node_rank == 0) return "0";
  for (const NodeChecks& check : checks) {
    for (const PeerCheck& peer : check.peers) {
      const bool is_it = check.node_rank == 0 && peer.node_rank == node_rank;
      if (!is_it || !peer.error.empty()) continue;
      return (peer.clock_ahead.count() > 0 ? "+" : "") + time_text(peer.clock_ahead);
    }
  }
  return "-";
}

}  // namespace

std::string health_table(std::span<const NodeHealth> nodes) {
  std::vector<TextRow> rows{
      split_words("node, host, ddp-launch, kernel, machine, CPUs, memory, /dev/shm, open files, "
                  "processes, locked, GPUs, driver")};
  for (const NodeHealth& node : nodes) {
    rows.push_back({std::to_string(node.node_rank),
                    node.host,
                    node.version,
                    node.kernel,
                    node.machine,
                    std::to_string(node.cpus),
                    bytes_text(node.memory_bytes),
                    bytes_text(node.shared_bytes),
                    limit_text(node.open_files) + " of " + limit_text(node.most_open_files),
                    limit_text(node.processes),
                    bytes_text(node.locked_bytes),
                    gpu_text(node),
                    node.driver.empty() ? "none" : node.driver});
  }
  return text_table(rows);
}

std::string network_table(std::span<const NodeHealth> nodes, std::span<const NodeChecks> checks) {
  std::vector<TextRow> rows{
      {"node", "address", "interfaces", "reaches", "round trip", "clock", "to the next node"}};
  for (const NodeChecks& check : checks) {
    const NodeHealth* const node = find_node(nodes, check.node_rank);
    if (node == nullptr) continue;
    std::chrono::nanoseconds slowest{0};
    std::size_t reached = 0;
    double rate = 0;
    for (const PeerCheck& peer : check.peers) {
      if (!peer.error.empty()) continue;
      ++reached;
      slowest = std::max(slowest, peer.round_trip);
      rate = std::max(rate, peer.bytes_per_second);
    }
    rows.push_back({std::to_string(check.node_rank),
                    node->address,
                    join_words(node->interfaces),
                    std::to_string(reached) + " of " + std::to_string(check.peers.size()),
                    reached > 0 ? time_text(slowest) : "-",
                    clock_of(check.node_rank, checks),
                    rate > 0 ? rate_text(rate) : "-"});
  }
  return text_table(rows) + "round trip: the longest; clock: against node 0; to the next node: " +
         format_bytes(kDoctorBytes) +
         " by TCP from each node to its next one, all at once, as in the ring of an all-reduce\n";
}

}  // namespace ddp::launcher
