#include "launcher/os/process_activity.h"

#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "common/text/contains.h"
#include "launcher/os/process_state.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMaxProcesses = 256;  // of one worker
constexpr std::size_t kMaxThreads = 64;     // of one process
constexpr std::size_t kLongestName = 63;    // of a kernel function, as shown

std::string path_of(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

/// The kernel function in which the process waits; empty: it runs, or not known.
std::string wait_channel(pid_t pid) {
  // "0" if it runs, and always for a process that we may not trace (proc(5), ptrace access mode).
  std::ifstream file(path_of(pid, "wchan"));
  std::string name;
  std::getline(file, name);
  name =
      name.substr(0, std::min(name.find('.'), kLongestName));  // "...constprop.0": the compiler's
  return name == "0" ? "" : name;
}

/// Bytes read and written: files and pipes; sockets only if read(2) and write(2) are used on them.
std::uint64_t io_bytes(pid_t pid) {
  std::ifstream file(path_of(pid, "io"));
  std::uint64_t sum = 0;
  std::uint64_t bytes = 0;
  for (std::string word; file >> word >> bytes;) {
    // Bytes passed to read(2) and write(2), also from the cache; read_bytes and write_bytes count
    // the disk alone.
    if (word == "rchar:" || word == "wchar:") sum += bytes;
  }
  return sum;
}

/// Voluntary context switches of the main thread; each begins a wait.
std::uint64_t count_voluntary_switches(pid_t pid) {
  std::ifstream file(path_of(pid, "task/" + std::to_string(pid) + "/status"));
  for (std::string word; file >> word;) {
    std::uint64_t count = 0;
    if (word == "voluntary_ctxt_switches:" && file >> count) return count;
  }
  return 0;
}

std::uint64_t used_ticks(pid_t pid) {
  const ProcessState state = read_process_state(pid);
  return state.cpu_ticks + state.children_ticks;
}

/// Whether the main thread waits for a child, like a shell's or an outer launcher's.
bool waits_for_child(const Activity& activity) {
  return contains(activity.waits_in, "do_wait") && !contains(activity.waits_in, "futex");
}

/// Whether the main thread waits in a read(2) of its stdin.
bool reads_stdin(pid_t pid) {
  // "running", or the number of the call and its arguments (proc_pid_syscall(5)).
  std::ifstream file(path_of(pid, "syscall"));
  long call = -1;
  std::string descriptor;
  return file >> call >> descriptor && call == SYS_read && descriptor == "0x0";
}

}  // namespace

Activity sample_process(pid_t pid) {
  Activity activity;
  const ProcessState state = read_process_state(pid);
  activity.state = state.state;
  activity.resident_bytes = state.resident_bytes;
  if (activity.state == 'S' || activity.state == 'D') activity.waits_in = wait_channel(pid);
  return activity;
}

Activity sample_process_tree(pid_t pid) {
  Activity activity = sample_process(pid);
  pid_t acting = pid;
  bool is_wrapper = waits_for_child(activity);
  std::vector<pid_t> family{pid};
  activity.resident_bytes = 0;
  for (std::size_t i = 0; i < family.size(); ++i) {
    const ProcessState state = read_process_state(family[i]);
    activity.ticks += state.cpu_ticks + state.children_ticks;
    activity.minor_faults += state.minor_faults;
    activity.resident_bytes += state.resident_bytes;
    activity.io_bytes += io_bytes(family[i]);
    const std::vector<pid_t> children = children_of(family[i], kMaxThreads);
    if (is_wrapper && !children.empty()) {
      // The child with most CPU time is the program, or another wrapper; other children may be
      // monitors.
      acting = *std::ranges::max_element(
          children, [](pid_t left, pid_t right) { return used_ticks(left) < used_ticks(right); });
      const Activity child = sample_process(acting);
      activity.state = child.state;
      activity.waits_in = child.waits_in;
      is_wrapper = waits_for_child(child);
    }
    // A fork bomb must not block the loop.
    if (family.size() + children.size() > kMaxProcesses) break;
    family.insert(family.end(), children.begin(), children.end());
  }
  activity.main_ticks = read_main_thread_state(acting).cpu_ticks;
  activity.voluntary_switches = count_voluntary_switches(acting);
  return activity;
}

bool waits_for_answer(pid_t pid) {
  termios terminal{};
  if (::tcgetattr(STDIN_FILENO, &terminal) != 0 || (terminal.c_lflag & ECHO) == 0) return false;
  std::vector<pid_t> family{pid};
  for (std::size_t i = 0; i < std::min(family.size(), kMaxProcesses); ++i) {
    if (reads_stdin(family[i])) return true;
    const std::vector<pid_t> children = children_of(family[i], kMaxThreads);
    family.insert(family.end(), children.begin(), children.end());
  }
  return false;
}

}  // namespace ddp::launcher
