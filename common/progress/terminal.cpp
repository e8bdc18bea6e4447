#include "common/progress/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "common/node/environment.h"
#include "common/text/parse_whole.h"

namespace ddp {

bool can_rewrite(int terminal) {
  static const std::string kind = find_variable(read_environment(), "TERM").value_or("unknown");
  return !kind.empty() && kind != "dumb" && ::isatty(terminal) == 1;
}

std::optional<TerminalSize> terminal_size(int terminal) {
  winsize size{};
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return TerminalSize{size.ws_col, size.ws_row};
}

std::size_t line_width(int terminal) {
  constexpr TerminalSize kUsual{80, 24};
  return static_cast<std::size_t>(terminal_size(terminal).value_or(kUsual).columns) - 1;
}

std::optional<std::size_t> output_width() {
  if (const auto size = terminal_size(STDOUT_FILENO))
    return static_cast<std::size_t>(size->columns);
  static const std::string columns = find_variable(read_environment(), "COLUMNS").value_or("");
  return parse_whole<std::size_t>(columns, 1);
}

}  // namespace ddp
