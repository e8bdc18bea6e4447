#include "common/text/one_line.h"

#include "common/text/utf8.h"

namespace ddp {

std::string one_line(std::string_view text, std::size_t limit) {
  std::string line;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length);
    const std::string_view shown = length == 0             ? kReplacement
                                   : is_control(character) ? "?"
                                                           : character;
    if (line.size() + shown.size() > limit) return line + "...";
    line += shown;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return line;
}

}  // namespace ddp
