#include "launcher/plan/placement.h"

#include <numeric>

namespace ddp::launcher {

std::vector<Placement> place(std::span<const int> workers_of_node, int node_rank) {
  const auto own = static_cast<std::size_t>(node_rank);
  const int before = std::reduce(workers_of_node.begin(), workers_of_node.begin() + node_rank);
  const int world_size = std::reduce(workers_of_node.begin(), workers_of_node.end());
  std::vector<Placement> placements;
  for (int local_rank = 0; local_rank < workers_of_node[own]; ++local_rank) {
    Placement placement;
    placement.rank = before + local_rank;
    placement.world_size = world_size;
    placement.local_rank = local_rank;
    placement.local_world_size = workers_of_node[own];
    placement.node_rank = node_rank;
    placement.nodes = static_cast<int>(workers_of_node.size());
    placements.push_back(placement);
  }
  return placements;
}

}  // namespace ddp::launcher
