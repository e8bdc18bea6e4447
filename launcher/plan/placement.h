// Which rank runs where: rank = workers of lower node ranks + local rank. Unequal numbers of
// workers are normal.
#pragma once

#include <span>
#include <vector>

namespace ddp::launcher {

struct Placement {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  int nodes = 1;

  bool operator==(const Placement&) const = default;
};

/// The workers of one node, in order of local rank. `workers_of_node` is indexed by node rank.
std::vector<Placement> place(std::span<const int> workers_of_node, int node_rank);

}  // namespace ddp::launcher
