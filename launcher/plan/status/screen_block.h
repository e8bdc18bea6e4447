// A text that is redrawn at the same place of a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::launcher {

/// Cuts `text` to a terminal of that size, without scrolling or wrapping: each line to the columns;
/// if there are too many lines, the last one says how many are not shown.
std::string fit_block(std::string_view text, std::size_t columns, std::size_t rows);

/// The bytes that draw `block` over the previous one, which had `lines_before` lines.
std::string redraw(const std::string& block, std::size_t lines_before);

}  // namespace ddp::launcher
