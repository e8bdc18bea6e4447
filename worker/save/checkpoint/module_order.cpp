#include "worker/save/checkpoint/module_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

namespace ddp::worker {

// Sorts names by the modules on their way: each module counts by its place in its parent, from 1. A
// tensor's own name counts as 0, because tensors come before the modules.
std::vector<std::size_t> module_order(std::span<const std::string> names) {
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> modules;  // by parent and name
  std::vector<std::vector<std::size_t>> ways;
  ways.reserve(names.size());
  for (const std::string& name : names) {
    std::string_view rest = name;
    std::vector<std::size_t>& way = ways.emplace_back();
    std::size_t above = 0;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      // All modules are numbered together, in the order in which they occur; that keeps the order
      // within each parent.
      above = modules.try_emplace({above, rest.substr(0, dot)}, modules.size() + 1).first->second;
      way.push_back(above);
      rest.remove_prefix(dot + 1);
    }
    way.push_back(0);
  }
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t place) -> const auto& { return ways[place]; });
  return order;
}

}  // namespace ddp::worker
