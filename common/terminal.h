// A terminal's last line that is rewritten in place.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddp {

inline constexpr std::string_view kEraseLine = "\r\x1b[K";  // to its start, and all of it

/// A terminal whose lines can be drawn anew: not one that TERM calls dumb, or nothing.
bool can_rewrite(int terminal);

/// What fits into one line of that terminal, in columns: a line that wraps could not be erased.
std::size_t line_width(int terminal);

}  // namespace ddp
