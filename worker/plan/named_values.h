// Numbers by their names, in the order in which they are shown: used by tasks, metrics and records
// of a run.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp::worker {

using NamedValues = std::vector<std::pair<std::string, double>>;

/// No value when nothing has that name.
inline std::optional<double> find_value(const NamedValues& values, std::string_view name) {
  const auto found =
      std::ranges::find(values, name, [](const auto& one) { return std::string_view(one.first); });
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ddp::worker
