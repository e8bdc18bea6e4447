#include "common/utf8.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ddp {

std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto is_tail = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return at(i) >= low && at(i) <= high;
  };
  if (text.empty()) return 0;
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return is_tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    // No longer form than needed, no half of a surrogate pair.
    const bool second = is_tail(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && is_tail(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool second = is_tail(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
    return second && is_tail(2) && is_tail(3) ? 4 : 0;
  }
  return 0;
}

Character first_character(std::string_view text) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kWide[] = {{0x1100, 0x115f},
                                                               {0x2e80, 0xa4cf},
                                                               {0xac00, 0xd7a3},
                                                               {0xf900, 0xfaff},
                                                               {0xfe30, 0xfe6f},
                                                               {0xff00, 0xff60},
                                                               {0xffe0, 0xffe6},
                                                               {0x1f300, 0x1faff},
                                                               {0x20000, 0x3fffd}};
  const std::size_t bytes = std::max<std::size_t>(utf8_length(text), 1);
  if (bytes < 3) return {bytes, 1};
  std::uint32_t point = static_cast<unsigned char>(text[0]) & (bytes == 3 ? 15 : 7);
  for (const char tail : text.substr(1, bytes - 1))
    point = point << 6 | (static_cast<unsigned char>(tail) & 63);
  const bool is_wide = std::ranges::any_of(
      kWide, [point](auto block) { return block.first <= point && point <= block.second; });
  return {bytes, is_wide ? 2U : 1U};
}

std::size_t valid_utf8(std::string_view text) {
  std::size_t size = 0;
  while (const std::size_t length = utf8_length(text.substr(size)))
    size += length;
  return size;
}

}  // namespace ddp
