#include "common/progress/line_part.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "common/text/join_words.h"
#include "common/text/utf8.h"

namespace ddp {
namespace {

/// How many bytes of the text fit into `columns`. The text may have any bytes.
std::size_t bytes_that_fit(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  while (end < text.size()) {
    const Character next = first_character(text.substr(end));
    if (next.columns > columns) break;
    columns -= next.columns;
    end += next.bytes;
  }
  return end;
}

}  // namespace

std::string join(const std::vector<LinePart>& parts) {
  return join_words(parts, ", ", &LinePart::text);
}

std::string fit(const std::vector<LinePart>& parts, std::size_t width) {
  std::vector<std::size_t> by_drop_order(parts.size());
  std::iota(by_drop_order.begin(), by_drop_order.end(), 0);
  std::ranges::stable_sort(by_drop_order, {}, [&](std::size_t i) { return parts[i].drop_order; });
  std::vector<std::size_t> shown;  // in their order
  std::string text;
  for (const std::size_t i : by_drop_order) {
    std::vector<std::size_t> more = shown;
    more.insert(std::ranges::upper_bound(more, i), i);
    std::vector<LinePart> chosen;
    for (const std::size_t place : more)
      chosen.push_back(parts[place]);
    const std::string longer = join(chosen);
    if (!shown.empty() && bytes_that_fit(longer, width) < longer.size()) continue;
    shown = std::move(more);
    text = longer;
  }
  return text.substr(0, bytes_that_fit(text, width));
}

}  // namespace ddp
