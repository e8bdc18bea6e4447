// Progress bars, as programs draw them on a terminal: states of one line, each after a carriage
// return. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddp::launcher {

/// The newest state of the bar in a line that is not whole yet, as append_clean() leaves it; empty:
/// it holds none, or the bar was wiped out.
std::string bar_state(std::string_view pending);

/// How many bytes at the head of such a line are states that two newer ones have followed.
std::size_t old_states(std::string_view pending);

/// What a whole line is.
enum class BarLine : std::uint8_t {
  text,   // something that the program has to say, be it printed onto a bar
  end,    // the last state of a bar, or the newest of one that has others below it
  below,  // drawn below another bar: the cursor goes up again (tqdm's nested ones)
};
BarLine bar_line(std::string_view line);

/// A whole line that draws one of several bars below each other: the cursor goes up again (tqdm's
/// nested ones). Such a line is printed again each time any of the bars changes.
bool is_of_nested_bars(std::string_view line);

}  // namespace ddp::launcher
