// Splits and trims text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// What lies before each separator, and what is left behind the last one: of "a,,b" three parts, of
/// an empty text one. Without a copy: a part lives as long as the text.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Without the blanks and line ends around it.
std::string_view trim(std::string_view text);

/// The parts between commas, each trimmed; what is empty is left out.
std::vector<std::string> split_words(std::string_view text);

}  // namespace ddp
