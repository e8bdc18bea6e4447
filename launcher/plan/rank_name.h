// How lines and flags name ranks: lines always in the same way, so that a name from one line finds
// the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/text/parse_whole.h"

namespace ddp::launcher {

/// "rank 3 (pid 17)"; with `node`, "rank 3 (node 1, b, pid 17)".
inline std::string name_rank(int rank, std::int64_t pid) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ")";
}
inline std::string name_rank(int rank, std::int64_t pid, int node_rank, const std::string& host) {
  return "rank " + std::to_string(rank) + " (node " + std::to_string(node_rank) + ", " + host +
         ", pid " + std::to_string(pid) + ")";
}

struct RankRange {
  int first = 0;
  int last = 0;

  bool operator==(const RankRange&) const = default;
};

/// Ranks as flags name them: "2" or "0-3".
inline std::optional<RankRange> read_rank_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::optional<int> first = parse_whole<int>(text.substr(0, dash), 0);
  const std::optional<int> last =
      dash == std::string_view::npos ? first : parse_whole<int>(text.substr(dash + 1), 0);
  if (!first || !last || *last < *first) return {};
  return RankRange{*first, *last};
}

}  // namespace ddp::launcher
