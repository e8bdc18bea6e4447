#include "launcher/plan/status/screen_block.h"

#include <algorithm>

#include "common/text/utf8.h"

namespace ddp::launcher {

std::string fit_block(std::string_view text, std::size_t columns, std::size_t rows) {
  const auto all = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  const std::size_t room = rows > 2 ? rows - 1 : 1;  // the last row is the cursor's
  const std::size_t shown = all <= room ? all : room - 1;
  std::string block;
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, std::min(end, columns));
    line = line.substr(0, valid_utf8(line));  // never half a character
    block.append(line).append("\n");
    text.remove_prefix(end + 1);
  }
  if (shown < all) {
    const std::string rest = "... " + std::to_string(all - shown) + " more lines";
    block.append(rest, 0, columns).append("\n");
  }
  return block;
}

std::string redraw(const std::string& block, std::size_t lines_before) {
  std::string text;
  // Move up to the start of its first line, and erase all below.
  if (lines_before > 0)
    text.append("\x1b[").append(std::to_string(lines_before)).append("A\r\x1b[J");
  return text.append(block);
}

}  // namespace ddp::launcher
