// What of a worker's line a console is given. A training program prints progress bars, colours and,
// when it is broken, anything: a console must not be moved, retitled or garbled by one rank's
// bytes. Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

/// Appends `line` as a terminal would leave it: of a line with carriage returns what follows the
/// last one; tabs and colours (SGR sequences) stay, and colours end with the line; other escape
/// sequences go, other control characters and direction marks (common/text/utf8: is_control) become
/// '?', bytes that are not UTF-8 become U+FFFD.
void append_clean(std::string& text, std::string_view line);

/// Each line of a text of somebody else's (error files, arguments and names hold whatever bytes
/// they like, and so does what comes over the wire), as append_clean() leaves it.
std::string clean_lines(std::string_view text);

/// What of a line that append_clean() has left stands in so many columns; its colours end with it.
std::string first_columns(std::string_view line, std::size_t columns);

/// A text of somebody else's that stands within a line of ours: the same, and no colours either;
/// line ends and tabs become blanks; of a longer one the first `most` bytes and "...".
std::string plain_line(std::string_view text, std::size_t most);

}  // namespace ddp::launcher
