#include "common/terminal.h"

#include <sys/ioctl.h>

namespace ddp {

std::size_t line_width(int terminal) {
  constexpr std::size_t kUsualWidth = 80;
  winsize size{};
  const bool is_known = ::ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (is_known ? size.ws_col : kUsualWidth) - 1;
}

}  // namespace ddp
