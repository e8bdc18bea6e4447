#include "launcher/os/descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <unistd.h>

namespace ddp::launcher {
namespace {

constexpr int kFirstHigh = 256;  // below: what is ours alone, and what one start needs

}  // namespace

int move_up(int fd) {
  if (fd < 0 || fd >= kFirstHigh) return fd;
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstHigh);
  if (high < 0) return fd;
  ::close(fd);
  return high;
}

void make_room(int count) {
  // The kernel makes a larger table when a number beyond its end is taken, and with several
  // threads waits until no CPU uses the old one (synchronize_rcu in fs/file.c): milliseconds that
  // a start is not to pay.
  const int last = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, kFirstHigh + count);
  if (last >= 0) ::close(last);
}

int keep_descriptors_below(int end) {
  // What is not kept is not even copied. Kernels before 5.9 lack the call: then all are, and are
  // closed when the child executes.
  if (::close_range(static_cast<unsigned>(end), ~0U, CLOSE_RANGE_UNSHARE) == 0) return 0;
  return ::unshare(CLONE_FILES);
}

}  // namespace ddp::launcher
