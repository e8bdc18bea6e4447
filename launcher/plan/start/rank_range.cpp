#include "launcher/plan/start/rank_range.h"

#include "common/text/parse_whole.h"

namespace ddp::launcher {

std::optional<RankRange> read_rank_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::optional<int> first = parse_whole<int>(text.substr(0, dash), 0);
  const std::optional<int> last =
      dash == std::string_view::npos ? first : parse_whole<int>(text.substr(dash + 1), 0);
  if (!first || !last || *last < *first) return {};
  return RankRange{*first, *last};
}

}  // namespace ddp::launcher
