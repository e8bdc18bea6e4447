// How a process ended: by its own exit code or by a signal. A value; exit code 138 is not taken for
// a signal.
#pragma once

#include <string>

namespace ddp::launcher {

struct ExitStatus {
  int code = 0;    // when signal is 0
  int signal = 0;  // 0: it exited by itself
  bool core = false;

  bool operator==(const ExitStatus&) const = default;
  [[nodiscard]] bool is_success() const { return code == 0 && signal == 0; }
  /// As a shell shows it: the code, or 128+n.
  [[nodiscard]] int exit_code() const { return signal != 0 ? 128 + signal : code; }
};

/// "exit code 7", "signal SIGKILL (9)".
std::string to_text(const ExitStatus& status);

/// "SIGKILL", or "signal 42".
std::string signal_name(int signal);

/// The number of "SIGTERM" or "TERM", or 0.
int signal_number(const std::string& name);

}  // namespace ddp::launcher
