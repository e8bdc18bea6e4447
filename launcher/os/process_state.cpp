#include "launcher/os/process_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "common/files/descriptor.h"
#include "common/text/parse_whole.h"

namespace ddp::launcher {
namespace {

ProcessState read_stat(const char* path) {
  ProcessState found;
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  // One read suffices, as the line is far shorter, and it is consistent.
  const ssize_t size = ::read(file.fd(), text.data(), text.size() - 1);
  // Fields follow the name in parentheses, which may have any character (proc(5)).
  const char* const close = size > 0 ? std::strrchr(text.data(), ')') : nullptr;
  if (close == nullptr) return found;
  ProcessState read;
  unsigned long user = 0;
  unsigned long system = 0;
  unsigned long minor_faults = 0;
  unsigned long major_faults = 0;
  long reaped_user = 0;
  long reaped_system = 0;
  unsigned long long started = 0;
  long resident = 0;
  unsigned flags = 0;
  // state, ppid, session (6th), flags (9th), minflt (10th), majflt (12th), utime to cstime (14th to
  // 17th), starttime (22nd), rss (24th), processor (39th), exit_code (52nd): proc(5).
  constexpr const char* kFields =
      " %c %d %*d %d %*d %*d %u %lu %*u %lu %*u %lu %lu %ld %ld %*d %*d %*d %*d %llu "
      "%*u %ld %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d "
      "%*u %*u %*u %*u %*d %*u %*u %*u %*u %*u %*u %*u %d";
  const int got = std::sscanf(close + 1,
                              kFields,
                              &read.state,
                              &read.parent,
                              &read.session,
                              &flags,
                              &minor_faults,
                              &major_faults,
                              &user,
                              &system,
                              &reaped_user,
                              &reaped_system,
                              &started,
                              &resident,
                              &read.core,
                              &read.wait_status);
  if (got < 13) return found;         // kernels before 3.5 do not have the last field
  constexpr unsigned kExiting = 0x4;  // PF_EXITING of the kernel's include/linux/sched.h
  read.is_exiting = (flags & kExiting) != 0;
  read.cpu_ticks = user + system;
  read.children_ticks = static_cast<std::uint64_t>(reaped_user + reaped_system);
  read.minor_faults = minor_faults;
  read.major_faults = major_faults;
  read.started = started;
  static const long kPage = ::sysconf(_SC_PAGESIZE);
  read.resident_bytes = static_cast<std::uint64_t>(resident) * static_cast<std::uint64_t>(kPage);
  return read;
}

ProcessState read_thread_state(pid_t pid, pid_t thread) {
  std::array<char, 64> path;
  std::snprintf(path.data(),
                path.size(),
                "/proc/%d/task/%d/stat",
                static_cast<int>(pid),
                static_cast<int>(thread));
  return read_stat(path.data());
}

std::string task_path(pid_t pid) {
  return "/proc/" + std::to_string(pid) + "/task";
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(task_path(pid).c_str()), ::closedir);
  while (const dirent* const entry = list ? ::readdir(list.get()) : nullptr)
    if (const auto thread = parse_whole<pid_t>(entry->d_name)) threads.push_back(*thread);
  return threads;
}

/// Whether a SIGKILL waits for the thread: exit_group(2) sends one to each.
bool will_be_killed(pid_t pid, pid_t thread) {
  const std::uint64_t pending =
      read_signal_set(task_path(pid) + "/" + std::to_string(thread) + "/status", "SigPnd:");
  return ((pending >> (SIGKILL - 1)) & 1) != 0;
}

}  // namespace

ProcessState read_process_state(pid_t pid) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
  return read_stat(path.data());
}

ProcessState read_main_thread_state(pid_t pid) {
  return read_thread_state(pid, pid);
}

bool ends_as_a_whole(pid_t pid) {
  return std::ranges::all_of(threads_of(pid), [pid](pid_t id) {
    const ProcessState thread = read_thread_state(pid, id);
    return thread.is_exiting || thread.state == '?' || will_be_killed(pid, id);
  });
}

std::uint64_t read_signal_set(const std::string& status_file, std::string_view name) {
  std::ifstream status(status_file);
  std::uint64_t signals = 0;
  for (std::string word; status >> word;) {
    if (word != name) continue;
    status >> std::hex >> signals;
    break;
  }
  return signals;
}

std::vector<pid_t> children_of(pid_t pid, std::size_t most_threads) {
  std::vector<pid_t> pids;
  std::vector<pid_t> threads = threads_of(pid);
  if (threads.size() > most_threads) threads.resize(most_threads);
  for (const pid_t thread : threads) {
    // A child belongs to the thread that forked it, so each has a list of its own (proc(5),
    // CONFIG_PROC_CHILDREN).
    std::ifstream file(task_path(pid) + "/" + std::to_string(thread) + "/children");
    for (pid_t child = 0; file >> child;)
      pids.push_back(child);
  }
  return pids;
}

}  // namespace ddp::launcher
