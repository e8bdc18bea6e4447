// Cleans a worker's lines for the console. A training program prints progress bars, colours and,
// when it is broken, anything; one rank's bytes must not move, retitle or garble the console. Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

/// Appends `line` as a terminal would show it: of a line with carriage returns, the text after the
/// last one. Tabs and colours (SGR sequences) stay, and colours end with the line. Other escape
/// sequences are removed. Other control characters and direction marks (common/text/utf8:
/// is_control) become '?'. Bytes that are not UTF-8 become U+FFFD.
void append_clean(std::string& text, std::string_view line);

/// Cleans each line of a text that is not ours by append_clean(): error files, arguments, names and
/// messages may hold any bytes.
std::string clean_lines(std::string_view text);

/// The first `columns` columns of a cleaned line; its colours end with it.
std::string first_columns(std::string_view line, std::size_t columns);

/// Cleans a text that is not ours for use within a line of ours: as clean_lines(), and without
/// colours. Line ends and tabs become blanks. A longer text is cut to its first `most` bytes and
/// "...".
std::string plain_line(std::string_view text, std::size_t most);

/// The text with "\r\n" for each "\n", as a raw terminal needs it.
std::string with_returns(std::string_view text);

}  // namespace ddp::launcher
