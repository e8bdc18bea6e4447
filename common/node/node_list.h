// The names of nodes in one line, as Slurm writes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct NodeList {
  std::vector<std::string> names;  // in the order of the list
  std::string problem;             // not empty: why there are no names
};

inline constexpr std::size_t kMaxListedNodes = 65536;

/// "n[01-04,7],m3" to n01, n02, n03, n04, n7, m3. A number is as wide as the first of its range;
/// of several brackets the last counts fastest: x[1-2]y[3-4] is x1y3, x1y4, x2y3, x2y4.
/// Errors: a problem for unmatched brackets, invalid ranges, more than kMaxListedNodes names, and
/// names that no node can have. Source: slurm.conf(5), NodeName; `scontrol show hostnames` gives
/// the same.
NodeList read_node_list(std::string_view text);

}  // namespace ddp
