#include "launcher/os/process_state.h"

#include <cstdio>
#include <string>

#include "common/files.h"

namespace ddp::launcher {

ProcessState look_at(pid_t pid) {
  ProcessState found;
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/stat", 4096).value_or("");
  // Fields after the name in parentheses, which may itself hold anything (proc(5)).
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return found;
  unsigned long user = 0;
  unsigned long system = 0;
  constexpr const char* kFields = " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu";
  if (std::sscanf(text.c_str() + close + 1, kFields, &found.state, &user, &system) == 3) {
    found.cpu_ticks = user + system;
  }
  return found;
}

}  // namespace ddp::launcher
