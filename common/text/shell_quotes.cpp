#include "common/text/shell_quotes.h"

#include <algorithm>
#include <cctype>

#include "common/text/utf8.h"

namespace ddp {
namespace {

/// The program of the package of pip that starts ddp-worker has this file, but not fmt.
std::string in_octal(unsigned char byte) {
  const auto digit = [byte](int shift) { return static_cast<char>('0' + (byte >> shift) % 8); };
  return {'\\', digit(6), digit(3), digit(0)};
}

/// Quotes control characters in bash's form: $'a\012b'.
std::string quote_control(std::string_view word) {
  std::string quoted = "$'";
  while (!word.empty()) {
    const std::size_t length = utf8_length(word);
    const std::string_view character = word.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || is_control(character)) {
      for (const char c : character)
        quoted += in_octal(static_cast<unsigned char>(c));
    } else {
      if (character == "'" || character == "\\") quoted += '\\';
      quoted += character;
    }
    word.remove_prefix(character.size());
  }
  return quoted + "'";
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string quote_for_bash(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  const bool is_text = valid_utf8(word) == word.size() && !has_control(word);
  return is_text ? in_quotes(word) : quote_control(word);
}

std::optional<std::vector<std::string>> split_shell_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'') {
      if (++i == text.size()) return std::nullopt;
      // Between double quotes it is itself, except before these (POSIX shell, 2.2.3).
      const bool escapes =
          quote == 0 || std::string_view("\"\\$`").find(text[i]) != std::string_view::npos;
      if (!escapes) words.back() += c;
      words.back() += text[i];
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return std::nullopt;
  return words;
}

}  // namespace ddp
