#include "common/line_part.h"

#include <algorithm>
#include <string_view>

#include "common/utf8.h"

namespace ddp {
namespace {

/// How much of the text, which may be any, has room in `columns`. Units: bytes.
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
  std::string text;
  for (const LinePart& part : parts)
    text += (text.empty() ? "" : ", ") + part.text;
  return text;
}

std::string fit(std::vector<LinePart> parts, std::size_t width) {
  std::string text = join(parts);
  while (parts.size() > 1 && bytes_that_fit(text, width) < text.size()) {
    // From the back: of equal ones the last.
    const auto least = std::max_element(
        parts.rbegin(), parts.rend(), [](const LinePart& left, const LinePart& right) {
          return left.importance < right.importance;
        });
    parts.erase(std::prev(least.base()));
    text = join(parts);
  }
  return text.substr(0, bytes_that_fit(text, width));
}

}  // namespace ddp
