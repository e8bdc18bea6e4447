#include "common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "common/identity.h"

namespace ddp {

bool can_rewrite(int terminal) {
  static const std::string kind = find_variable(read_environment(), "TERM").value_or("unknown");
  return !kind.empty() && kind != "dumb" && ::isatty(terminal) == 1;
}

std::size_t line_width(int terminal) {
  constexpr std::size_t kUsualWidth = 80;
  winsize size{};
  const bool is_known = ::ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (is_known ? size.ws_col : kUsualWidth) - 1;
}

}  // namespace ddp
