// Progress bars, as programs draw them on a terminal: states of one line, each after a carriage
// return. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddp::launcher {

/// The newest state of the bar in an unfinished line, as append_clean() leaves it; empty: the line
/// has none, or the bar was erased.
std::string bar_state(std::string_view pending);

/// How many bytes at the head of such a line can be dropped: all states but the two newest.
std::size_t old_states(std::string_view pending);

/// What a finished line is.
enum class BarLine : std::uint8_t {
  text,   // the program's own text, maybe printed over a bar
  end,    // the bar's last state; of nested bars, the newest state of the upper one
  below,  // drawn below another bar: the cursor goes up again (tqdm's nested ones)
};
BarLine bar_line(std::string_view line);

/// Whether a finished line draws one of several bars below each other: the cursor goes up again
/// (tqdm's nested ones). Such a line is printed again each time any of the bars changes.
bool is_of_nested_bars(std::string_view line);

}  // namespace ddp::launcher
