// The only place of the tests that calls kill(2). There -1 means every process of the machine, 0
// the test's own group, and a number below -1 a whole group: a pid that was never found must not
// become one.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <stdexcept>
#include <string>

namespace ddp::test {

/// Sends `signal` to that one process; when it is gone, nothing happens. Errors:
/// std::invalid_argument for what is not a pid of a process that a test has started.
inline void send_signal(pid_t pid, int signal) {
  if (pid <= 1) {
    throw std::invalid_argument("no signal " + std::to_string(signal) + " to pid " +
                                std::to_string(pid) + ": that is not a process of a test.");
  }
  ::kill(pid, signal);
}

}  // namespace ddp::test
