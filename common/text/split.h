// Splits and trims text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// The parts between separators: three of "a,,b", one of an empty text. No copies: a part is valid
/// as long as the text.
std::vector<std::string_view> split(std::string_view text, char separator);

/// The lines of a text. What follows the last line end is a line, too, unless it is empty.
std::vector<std::string_view> split_lines(std::string_view text);

/// The text without blanks and line ends around it.
std::string_view trim(std::string_view text);

/// The parts between commas, each trimmed; empty ones are left out.
std::vector<std::string> split_words(std::string_view text);

}  // namespace ddp
