// A terminal's last line that is rewritten in place.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace ddp {

inline constexpr std::string_view kEraseLine = "\r\x1b[K";  // to its start, and all of it

/// A terminal whose lines can be drawn again: not where TERM is "dumb" or empty. Unset, it says
/// nothing.
bool can_rewrite(int terminal);

struct TerminalSize {
  int columns = 0;
  int rows = 0;
};
/// Nothing: it is not a terminal, or it does not say.
std::optional<TerminalSize> terminal_size(int terminal);

/// What fits into one line of that terminal, in columns: a line that wraps could not be erased.
/// 0: nothing does.
std::size_t line_width(int terminal);

/// Columns that a line of our standard output has before it wraps: the terminal's, else what
/// COLUMNS says (under ddp-launch: what its prefix leaves). Nothing: it goes to a file or a pipe.
std::optional<std::size_t> output_width();

}  // namespace ddp
