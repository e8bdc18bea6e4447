#include "common/one_line.h"

#include "common/utf8.h"

namespace ddp {
namespace {

/// Also U+0080 to U+009F, which terminals obey like ESC and a letter.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return character.size() == 2 && character[0] == '\xc2' && character[1] < '\xa0';
}

}  // namespace

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
