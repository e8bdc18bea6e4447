#include "common/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

namespace ddp {

void secure_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);  // takes the lowest free one
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace ddp
