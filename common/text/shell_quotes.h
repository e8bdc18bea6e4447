// Words for shells of the Bourne family. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// `text` in single quotes; it may have any bytes but NUL.
std::string in_quotes(std::string_view text);

/// `word` as it is typed into a shell. Control bytes are escaped in bash's form.
std::string quote_for_bash(const std::string& word);

/// The words of a command, as a shell splits them: quotes and backslashes count, all other
/// characters stand for themselves. Nothing: a quote is not closed, or a backslash ends the text.
std::optional<std::vector<std::string>> split_shell_words(std::string_view text);

}  // namespace ddp
