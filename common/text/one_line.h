// Text that somebody else may have written, as part of a line of ours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp {

/// `text` in one line without escapes: control characters and direction
/// marks (common/text/utf8: is_control) become '?', bytes that are not UTF-8
/// U+FFFD; what is longer than `limit` bytes is cut and ends with "...".
std::string one_line(std::string_view text, std::size_t limit = 200);

}  // namespace ddp
