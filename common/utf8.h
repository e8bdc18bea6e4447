// UTF-8, judged strictly: overlong forms, surrogates and what lies above U+10FFFF are invalid.
// Source: Unicode 15, table 3-7; RFC 3629.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddp {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD, for bytes that are none

/// Length of the sequence at the head of `text`; 0 when there is none.
std::size_t utf8_length(std::string_view text);

/// What a terminal shows of the head of a text that may hold anything.
struct Character {
  std::size_t bytes = 1;    // of the sequence; 1, too, where there is none
  std::size_t columns = 1;  // 2: East Asian wide, or an emoji
};
/// `text` is not empty. Source of the widths: Unicode 15, EastAsianWidth.txt; from U+2E80 on
/// and of pictures from U+1F200 on by blocks.
Character first_character(std::string_view text);

/// Length of the longest head of `text` that is valid.
std::size_t valid_utf8(std::string_view text);

}  // namespace ddp
