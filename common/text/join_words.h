// Joins words into one text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

/// "0-3,5" of ascending numbers.
inline std::string join_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    add_word(text, std::to_string(numbers[i]), ",");
    if (end - i > 1) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace ddp
