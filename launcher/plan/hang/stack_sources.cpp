#include "launcher/plan/hang/stack_sources.h"

#include <algorithm>
#include <csignal>
#include <string_view>

#include "common/text/contains.h"

namespace ddp::launcher {
namespace {

bool catches(const SessionProcess& process, int signal) {
  return ((process.caught >> (signal - 1)) & 1) != 0;
}

bool is_python(const SessionProcess& process) {
  const std::string_view path = process.executable;
  return path.substr(path.rfind('/') + 1).starts_with("python");
}

/// Whether `parent` started it as a helper. A forked one has its parent's command line; the command
/// of a spawned one names the module that started it.
bool is_helper(const SessionProcess& process, const SessionProcess& parent) {
  if (!is_python(process) || !is_python(parent)) return false;
  const auto names = [&](const char* module) { return contains(process.command, module); };
  return process.command == parent.command || names("multiprocessing") || names("compile_worker");
}

}  // namespace

std::vector<StackSource> choose_stack_sources(std::span<const SessionProcess> processes) {
  std::vector<StackSource> sources;
  for (const SessionProcess& process : processes) {
    const auto parent = std::ranges::find(processes, process.parent, &SessionProcess::pid);
    if (parent != processes.end() && is_helper(process, *parent)) continue;
    StackSource source{process.pid, process.session, 0, is_python(process)};
    // A handler written in Python runs between two lines of Python, so a stuck process never runs
    // it. faulthandler's handler runs at once.
    const bool has_faulthandler = source.is_python && catches(process, SIGABRT);
    if (catches(process, SIGUSR2) && !has_faulthandler) {
      source.signal = SIGUSR2;
    } else if (catches(process, SIGABRT)) {
      source.signal = SIGABRT;
    }
    if (source.signal != 0 || source.is_python) sources.push_back(source);
  }
  return sources;
}

}  // namespace ddp::launcher
