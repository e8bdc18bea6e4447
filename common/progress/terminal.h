// A terminal's last line that is rewritten in place.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace ddp {

inline constexpr std::string_view kEraseLine = "\r\x1b[K";  // moves to its start and erases it

/// Whether the terminal's lines can be redrawn: not if TERM is "dumb" or empty. TERM may be unset.
bool can_rewrite(int terminal);

struct TerminalSize {
  int columns = 0;
  int rows = 0;
  bool operator==(const TerminalSize&) const = default;
};
/// Nothing: not a terminal, or its size is not known.
std::optional<TerminalSize> terminal_size(int terminal);

/// The columns that fit into one line of that terminal, as a wrapped line could not be erased. 0:
/// none.
std::size_t line_width(int terminal);

/// The columns of a line of stdout: the terminal's, else COLUMNS (under ddp-launch: without its
/// prefix). Nothing: stdout is a file or a pipe.
std::optional<std::size_t> output_width();

}  // namespace ddp
