// UTF-8, judged strictly: overlong forms, surrogates and what lies above U+10FFFF are invalid.
// Source: Unicode 15, table 3-7; RFC 3629.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddp {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD, for bytes that are none

/// Length of the sequence at the head of `text`; 0 when there is none.
std::size_t utf8_length(std::string_view text);

/// Columns of a terminal that the valid sequence `character` takes: 2 if it is East Asian wide or
/// an emoji, else 1. Source: Unicode 15, EastAsianWidth.txt, by blocks.
std::size_t columns_of(std::string_view character);

/// Length of the longest head of `text` that is valid.
std::size_t valid_utf8(std::string_view text);

}  // namespace ddp
