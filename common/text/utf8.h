// Strict UTF-8: overlong forms, surrogates and numbers above U+10FFFF are invalid. Source: Unicode
// 15, table 3-7; RFC 3629.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD, for bytes that are none

/// Length of the sequence at the head of `text`; 0: none.
std::size_t utf8_length(std::string_view text);

/// The code point of a character: of one sequence, or the value of any other single byte.
std::uint32_t code_point(std::string_view character);

/// The first character of any text, as a terminal shows it.
struct Character {
  std::size_t bytes = 1;    // of the sequence; 1 if there is none
  std::size_t columns = 1;  // 2: East Asian wide, or an emoji
};
/// `text` is not empty. Source of the widths: Unicode 15, EastAsianWidth.txt; from U+2E80 on
/// and of pictures from U+1F200 on by blocks.
Character first_character(std::string_view text);

/// Whether a terminal or a browser obeys the character (one sequence, or one byte that is not part
/// of any) instead of showing it: control characters (also U+0080 to U+009F, which terminals read
/// as ESC and a letter), line and paragraph separators, and marks that change the direction of
/// text, so that a line reads differently than it is. Source: Unicode 15, general categories Cc, Zl
/// and Zp, property Bidi_Control.
bool is_control(std::string_view character);

/// Whether the text has such a character.
bool has_control(std::string_view text);

/// Length of the longest head of `text` that is valid.
std::size_t valid_utf8(std::string_view text);

}  // namespace ddp
