// The line by which a node says on its console which ranks it runs. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddp {

/// The ranks of a node.
struct NodeRanks {
  int node_rank = 0;
  std::string host;
  int first_rank = 0;
  std::vector<std::string> devices;  // by local rank
  std::string logs;                  // directory of the log files; empty: none
};

/// "node 1 (b): ranks 2-3, device cpu, logs runs/mnist/logs/round-0".
std::string describe_node(const NodeRanks& node);

}  // namespace ddp
