// Cleans text from elsewhere for use within a line of ours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp {

/// `text` in one line without escapes: control characters and direction marks (common/text/utf8:
/// is_control) become '?', and bytes that are not UTF-8 become U+FFFD. A text longer than `limit`
/// bytes is cut and ends with "...".
std::string one_line(std::string_view text, std::size_t limit = 200);

}  // namespace ddp
