// Which processes of a worker are asked for their stacks, and how. Pure.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp::launcher {

// Waits at a hang, before the workers are ended:
inline constexpr std::chrono::seconds kSpyWait{3};    // for py-spy
inline constexpr std::chrono::seconds kPrintWait{2};  // for what the processes print themselves

/// A live process in a worker's session.
struct SessionProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;         // the worker's, equal to its pid
  std::uint64_t caught = 0;  // bit n-1: has a handler for signal n (proc(5), SigCgt)
  std::string executable;    // path; empty: not readable
  std::string command;       // its arguments, as /proc/PID/cmdline has them
  bool operator==(const SessionProcess&) const = default;
};

/// A process whose stacks can be read.
struct StackSource {
  pid_t pid = 0;
  pid_t session = 0;
  int signal = 0;          // SIGUSR2: prints, goes on; SIGABRT: prints, dies; 0: only py-spy
  bool is_python = false;  // py-spy can read it
  bool operator==(const StackSource&) const = default;
};

/// Asks by SIGUSR2 where a process catches it, else by SIGABRT where it catches that. A Python that
/// catches SIGABRT (by faulthandler) always gets SIGABRT. Helpers that a Python process has started
/// (data loaders) are left out, as they only wait for it.
std::vector<StackSource> choose_stack_sources(std::span<const SessionProcess> processes);

}  // namespace ddp::launcher
