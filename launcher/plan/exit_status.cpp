#include "launcher/plan/exit_status.h"

#include <csignal>
#include <cstring>

#include "common/exit_code.h"

namespace ddp::launcher {

std::string to_text(const ExitStatus& status) {
  if (status.signal != 0)
    return "signal " + signal_name(status.signal) + " (" + std::to_string(status.signal) + ")";
  const std::string meaning = exit_code::describe(status.code);
  std::string text = "exit code " + std::to_string(status.code);
  if (status.code != 0 && !meaning.empty()) text += " (" + meaning + ")";
  return text;
}

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

int signal_number(const std::string& name) {
  const std::string shortened = name.starts_with("SIG") ? name.substr(3) : name;
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* const candidate = ::sigabbrev_np(signal);
    if (candidate != nullptr && shortened == candidate) return signal;
  }
  return 0;
}

}  // namespace ddp::launcher
