// Words for shells of the Bourne family. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// `text` in single quotes; it may have any bytes but NUL.
std::string in_quotes(std::string_view text);

/// The words of a command, as a shell splits them: quotes and backslashes count, all other
/// characters stand for themselves. Nothing: a quote is not closed, or a backslash ends the text.
std::optional<std::vector<std::string>> split_shell_words(std::string_view text);

}  // namespace ddp
