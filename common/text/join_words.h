// Words as one text.
#pragma once

#include <string>

namespace ddp {

/// "sgd, adam" of a range of texts.
template <typename Words>
std::string join_words(const Words& words, const std::string& separator = ", ") {
  std::string text;
  bool is_first = true;
  for (const auto& word : words) {
    if (!is_first) text += separator;
    is_first = false;
    text += word;
  }
  return text;
}

}  // namespace ddp
