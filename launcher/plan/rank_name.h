// How lines name a rank: always in the same way, so that a name from one line finds the others.
#pragma once

#include <cstdint>
#include <string>

namespace ddp::launcher {

/// "rank 3 (pid 17)"; with `node`, "rank 3 (node 1, b, pid 17)".
inline std::string name_rank(int rank, std::int64_t pid) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ")";
}
inline std::string name_rank(int rank, std::int64_t pid, int node_rank, const std::string& host) {
  return "rank " + std::to_string(rank) + " (node " + std::to_string(node_rank) + ", " + host +
         ", pid " + std::to_string(pid) + ")";
}

}  // namespace ddp::launcher
