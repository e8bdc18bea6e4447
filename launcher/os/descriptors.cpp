#include "launcher/os/descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace ddp::launcher {
namespace {

constexpr int kFirstHigh = 256;  // below: our own, and those of one start

}  // namespace

int move_to_high_number(int fd) {
  if (fd < 0 || fd >= kFirstHigh) return fd;
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstHigh);
  if (high < 0) return fd;
  ::close(fd);
  return high;
}

void grow_descriptor_table(int count) {
  // The kernel makes a larger table when a number beyond its end is used. With several threads it
  // then waits until no CPU uses the old table (synchronize_rcu in fs/file.c), milliseconds that no
  // start should cost.
  const int last = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, kFirstHigh + count);
  if (last >= 0) ::close(last);
}

int keep_descriptors_below(int end) {
  // Descriptors from `end` on are not even copied. Kernels before 5.9 lack the call: then all are
  // copied, and closed when the child executes.
  if (::close_range(static_cast<unsigned>(end), ~0U, CLOSE_RANGE_UNSHARE) == 0) return 0;
  return ::unshare(CLONE_FILES);
}

bool is_readable(int fd, std::chrono::milliseconds limit) {
  using std::chrono::steady_clock;
  const steady_clock::time_point deadline = steady_clock::now() + limit;
  pollfd entry{fd, POLLIN, 0};
  int ready = 0;
  do {
    const auto left = std::chrono::floor<std::chrono::milliseconds>(deadline - steady_clock::now());
    ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

}  // namespace ddp::launcher
