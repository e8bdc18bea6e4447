// Which rank runs where: rank = workers of lower node ranks + local rank. Nodes may have different
// numbers of workers. The same count over the nodes of one role gives the rank in the role.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ddp::launcher {

struct Placement {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  int nodes = 1;
  int role_rank = 0;
  int role_world_size = 1;

  bool operator==(const Placement&) const = default;
};

/// A number for each role; equal names get equal numbers.
std::vector<int> number_roles(std::span<const std::string> roles);

/// The workers of one node, in order of local rank. Both lists are indexed by node rank; nodes of
/// one role have the same number in `role_of_node`.
std::vector<Placement> place(std::span<const int> workers_of_node,
                             std::span<const int> role_of_node,
                             int node_rank);

}  // namespace ddp::launcher
