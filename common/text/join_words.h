// Joins words into one text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ddp {

/// Adds a word to `list`.
inline void add_word(std::string& list, std::string_view word, std::string_view separator = ", ") {
  if (!list.empty()) list += separator;
  list += word;
}

/// "sgd, adam": joins a range of texts, or the results of `to_text`.
template <typename Words, typename ToText = std::identity>
std::string join_words(const Words& words, std::string_view separator = ", ", ToText to_text = {}) {
  std::string text;
  bool is_first = true;
  for (const auto& word : words) {
    if (!is_first) text += separator;
    is_first = false;
    text += std::invoke(to_text, word);
  }
  return text;
}

}  // namespace ddp
