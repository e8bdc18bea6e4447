#include "common/text/color.h"

#include <charconv>

namespace ddp {

std::optional<std::array<std::uint8_t, 3>> parse_color(std::string_view text) {
  if (text == "white") text = "#ffffff";
  if (text == "black") text = "#000000";
  if (text.size() != 7 || text.front() != '#') return {};
  std::array<std::uint8_t, 3> color{};
  for (std::size_t i = 0; i < color.size(); ++i) {
    const char* const end = text.data() + 3 + 2 * i;
    const auto read = std::from_chars(end - 2, end, color[i], 16);
    if (read.ec != std::errc() || read.ptr != end) return {};
  }
  return color;
}

}  // namespace ddp
