// What the kernel tells of a running process: its state, its session and the CPU time it has used.
// The one reader of /proc/PID/stat. It runs in the guard too: no allocation.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace ddp::launcher {

struct ProcessState {
  char state = '?';  // R, S, D, T, Z, ... (proc(5)); '?' when it cannot be read
  pid_t session = 0;
  std::uint64_t cpu_ticks = 0;  // user and system time of all its threads, in clock ticks
};

ProcessState look_at(pid_t pid);

}  // namespace ddp::launcher
