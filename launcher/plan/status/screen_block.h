// A text that is drawn again and again at the same place of a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::launcher {

/// What of `text` stands in a terminal of that size without scrolling or wrapping: each line cut to
/// its columns, and where there are too many lines, the last one says how many are not shown.
std::string fit_block(std::string_view text, std::size_t columns, std::size_t rows);

/// What draws `block` over the one before, which had so many lines.
std::string redraw(const std::string& block, std::size_t lines_before);

}  // namespace ddp::launcher
