#include "common/text/utf8.h"

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

std::uint32_t code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return lead;
  // Without the length bits the lead byte has 5, 4 or 3 bits.
  std::uint32_t point = lead & (0xffU >> (character.size() + 1));
  for (const char tail : character.substr(1))
    point = point << 6 | (static_cast<unsigned char>(tail) & 63);
  return point;
}

Character first_character(std::string_view text) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kWide[] = {
      {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},
      {0x23f0, 0x23f0},   {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},
      {0x2648, 0x2653},   {0x267f, 0x267f},   {0x2693, 0x2693},   {0x26a1, 0x26a1},
      {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},   {0x26ce, 0x26ce},
      {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
      {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},
      {0x2728, 0x2728},   {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},
      {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27b0, 0x27b0},   {0x27bf, 0x27bf},
      {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},   {0x2e80, 0xa4cf},
      {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
      {0xffe0, 0xffe6},   {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
      {0x1f191, 0x1f19a}, {0x1f200, 0x1f2ff}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
  const std::size_t bytes = std::max<std::size_t>(utf8_length(text), 1);
  if (bytes < 3) return {bytes, 1};
  const std::uint32_t point = code_point(text.substr(0, bytes));
  const bool is_wide = std::ranges::any_of(
      kWide, [point](auto block) { return block.first <= point && point <= block.second; });
  return {bytes, is_wide ? 2U : 1U};
}

bool is_control(std::string_view character) {
  if (character.size() == 1) {
    const auto byte = static_cast<unsigned char>(character[0]);
    return byte < 0x20 || byte == 0x7f;
  }
  const std::uint32_t point = code_point(character);
  return point < 0xa0 || point == 0x61c || point == 0x200e || point == 0x200f ||
         (0x2028 <= point && point <= 0x202e) || (0x2066 <= point && point <= 0x2069);
}

bool has_control(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
    if (is_control(text.substr(0, length))) return true;
    text.remove_prefix(length);
  }
  return false;
}

std::size_t valid_utf8(std::string_view text) {
  std::size_t size = 0;
  while (const std::size_t length = utf8_length(text.substr(size)))
    size += length;
  return size;
}

}  // namespace ddp
