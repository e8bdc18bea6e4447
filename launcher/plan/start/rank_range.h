// Ranks as flags name them: "2" or "0-3". Pure.
#pragma once

#include <optional>
#include <string_view>

namespace ddp::launcher {

struct RankRange {
  int first = 0;
  int last = 0;

  bool operator==(const RankRange&) const = default;
};

std::optional<RankRange> read_rank_range(std::string_view text);

}  // namespace ddp::launcher
