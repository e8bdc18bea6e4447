#include "launcher/os/process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

namespace ddp::launcher {

ProcessState look_at(pid_t pid) {
  ProcessState found;
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
  const int fd = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return found;
  std::array<char, 4096> text{};
  const ssize_t size = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  // Fields after the name in parentheses, which may itself hold anything (proc(5)).
  const char* const close = size > 0 ? std::strrchr(text.data(), ')') : nullptr;
  if (close == nullptr) return found;
  ProcessState read;
  unsigned long user = 0;
  unsigned long system = 0;
  constexpr const char* kFields = " %c %*d %*d %d %*d %*d %*u %*u %*u %*u %*u %lu %lu";
  if (std::sscanf(close + 1, kFields, &read.state, &read.session, &user, &system) != 4) {
    return found;
  }
  read.cpu_ticks = user + system;
  return read;
}

}  // namespace ddp::launcher
