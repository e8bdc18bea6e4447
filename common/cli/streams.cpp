#include "common/cli/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iostream>

#include "common/error.h"

namespace ddp {

void secure_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);  // gets the lowest free number
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

void print(const std::string& text) {
  errno = 0;
  std::cout << text << std::flush;
  if (!std::cout && errno == EPIPE) {  // `| head` has read enough: end silently
    ::signal(SIGPIPE, SIG_DFL);
    (void)::raise(SIGPIPE);
  }
  if (!std::cout) throw SystemError(system_message("write", "stdout", errno));
}

}  // namespace ddp
