#include "launcher/plan/store/store_joins.h"

#include "common/text/join_words.h"
#include "launcher/plan/rank_name.h"

namespace ddp::launcher {
namespace {

constexpr int kNamed = 8;  // ranks named in one line

}  // namespace

std::optional<std::string> who_is_missing(std::span<const WorkerState> ranks, int unknown_clients) {
  int joined = 0;
  int missing = 0;
  std::string names;
  for (const WorkerState& rank : ranks) {
    if (rank.joined_store) ++joined;
    if (rank.joined_store || rank.ended) continue;  // a rank that has ended will not join
    if (++missing > kNamed) continue;
    add_word(names, name_rank(rank.rank, rank.pid));
  }
  if (joined == 0 || missing <= unknown_clients) return {};
  if (missing > kNamed) names += " and " + std::to_string(missing - kNamed) + " more";
  return std::to_string(joined) + " of " + std::to_string(ranks.size()) +
         " ranks have joined the store; still to come: " + names;
}

}  // namespace ddp::launcher
