// What the kernel shows of a process or thread: state, session, memory and CPU time. The only
// reader of /proc/PID/stat. read_process_state() also runs in the guard: no allocation.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

struct ProcessState {
  char state = '?';  // R, S, D, T, Z, ... (proc(5)); '?': not readable
  pid_t parent = 0;
  pid_t session = 0;
  std::uint64_t cpu_ticks = 0;       // user and system time of all its threads, in clock ticks
  std::uint64_t children_ticks = 0;  // of children that it has reaped
  std::uint64_t minor_faults = 0;    // page faults of all its threads, without a read of a disk
  std::uint64_t major_faults = 0;    // and with one
  std::uint64_t started = 0;         // in clock ticks since boot
  std::uint64_t resident_bytes = 0;
  int core = 0;             // on which its main thread ran last
  bool is_exiting = false;  // its main thread has ended
  int wait_status = 0;      // then: how, as waitpid(2) gives it; 0 if we may not know
};

ProcessState read_process_state(pid_t pid);

/// The same for its main thread alone.
ProcessState read_main_thread_state(pid_t pid);

/// Whether all its threads end, although the kernel may still free what it had. When the main
/// thread ends alone, the others go on.
bool ends_as_a_whole(pid_t pid);

/// A set of signals from a status file of /proc (proc(5)), as "SigCgt:". Bit n - 1 is signal n; 0:
/// not readable.
std::uint64_t read_signal_set(const std::string& status_file, std::string_view name);

/// Its children, ended or not. Each thread's list of children costs a file, so at most
/// `most_threads` threads are read.
std::vector<pid_t> children_of(pid_t pid,
                               std::size_t most_threads = std::numeric_limits<std::size_t>::max());

}  // namespace ddp::launcher
