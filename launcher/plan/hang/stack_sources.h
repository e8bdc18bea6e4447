// Which processes of a worker are asked where they stand, and how. Pure.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp::launcher {

// At a hang, before the workers are ended:
inline constexpr std::chrono::seconds kSpyWait{3};    // for py-spy
inline constexpr std::chrono::seconds kPrintWait{2};  // for what the processes print themselves

/// A living process of a worker's session.
struct SessionProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;         // that of the worker, whose pid it is
  std::uint64_t caught = 0;  // bit n-1: it has a handler for signal n (proc(5), SigCgt)
  std::string executable;    // path; empty: not readable
  std::string command;       // its arguments, as /proc/PID/cmdline has them
  bool operator==(const SessionProcess&) const = default;
};

/// A process that can print its stacks.
struct StackSource {
  pid_t pid = 0;
  pid_t session = 0;
  int signal = 0;  // SIGUSR2: it prints and goes on; SIGABRT: it prints and dies; 0: neither
  bool is_python = false;  // py-spy can look at it
  bool operator==(const StackSource&) const = default;
};

/// SIGUSR2 where a process catches it, else SIGABRT where it catches that (Python's faulthandler
/// does). Left out are the helpers that a Python process has made of itself (loaders of data),
/// which only wait for it.
std::vector<StackSource> choose_stack_sources(std::span<const SessionProcess> processes);

}  // namespace ddp::launcher
