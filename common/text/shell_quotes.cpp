#include "common/text/shell_quotes.h"

namespace ddp {

std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace ddp
