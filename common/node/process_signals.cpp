#include "common/node/process_signals.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace ddp {

bool signal_process(pid_t pid, int signal) {
  return pid > 1 && ::kill(pid, signal) == 0;
}

bool reap_within(pid_t pid, std::chrono::milliseconds limit) {
  if (pid <= 0) return false;  // for waitpid(2) it means any child
  const int pidfd = open_pidfd(pid);
  pollfd entry{pidfd, POLLIN, 0};
  const std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() + limit;
  auto left = limit;
  while (pidfd >= 0 && ::poll(&entry, 1, static_cast<int>(left.count())) < 0 && errno == EINTR) {
    left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline -
                                                                 std::chrono::steady_clock::now());
    if (left.count() < 0) left = std::chrono::milliseconds(0);
  }
  if (pidfd >= 0) ::close(pidfd);
  return ::waitpid(pid, nullptr, WNOHANG) == pid;
}

int open_pidfd(pid_t pid) {
  // glibc 2.36 declares pidfd_open without extern "C", so ask the kernel.
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace ddp
