#include "common/line_part.h"

#include <algorithm>

namespace ddp {
namespace {

/// Bytes that begin a character: a host's or a user's name may be any text.
std::size_t count_columns(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string join(const std::vector<LinePart>& parts) {
  std::string text;
  for (const LinePart& part : parts)
    text += (text.empty() ? "" : ", ") + part.text;
  return text;
}

std::string fit(std::vector<LinePart> parts, std::size_t width) {
  while (parts.size() > 1 && count_columns(join(parts)) > width) {
    // From the back: of equal ones the last.
    const auto least = std::max_element(
        parts.rbegin(), parts.rend(), [](const LinePart& left, const LinePart& right) {
          return left.importance < right.importance;
        });
    parts.erase(std::prev(least.base()));
  }
  return join(parts);
}

}  // namespace ddp
