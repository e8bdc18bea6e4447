#include "launcher/plan/start/placement.h"

#include <algorithm>
#include <numeric>

namespace ddp::launcher {

std::vector<int> number_roles(std::span<const std::string> roles) {
  std::vector<int> numbers;
  for (const std::string& role : roles) {
    const auto first = std::ranges::find(roles, role);
    numbers.push_back(static_cast<int>(first - roles.begin()));
  }
  return numbers;
}

std::vector<Placement> place(std::span<const int> workers_of_node,
                             std::span<const int> role_of_node,
                             int node_rank) {
  const auto own = static_cast<std::size_t>(node_rank);
  int role_before = 0;
  int role_world_size = 0;
  for (std::size_t node = 0; node < workers_of_node.size(); ++node) {
    if (role_of_node[node] != role_of_node[own]) continue;
    if (node < own) role_before += workers_of_node[node];
    role_world_size += workers_of_node[node];
  }
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
    placement.role_rank = role_before + local_rank;
    placement.role_world_size = role_world_size;
    placements.push_back(placement);
  }
  return placements;
}

}  // namespace ddp::launcher
