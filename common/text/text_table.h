// Tables for a terminal.
#pragma once

#include <string>
#include <vector>

namespace ddp {

using TextRow = std::vector<std::string>;

/// A line for each row: columns as wide as their widest cell, in characters, two blanks between
/// them and none at the end.
std::string text_table(const std::vector<TextRow>& rows);

}  // namespace ddp
