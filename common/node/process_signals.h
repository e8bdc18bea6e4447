// Signals to one process, and the end of one child.
#pragma once

#include <sys/types.h>

#include <chrono>

namespace ddp {

/// Sends `signal` to one process. For kill(2) 0 and negative numbers mean many processes, -1 all of
/// the machine; such a number, or init's, is refused. False: refused, or the process is gone.
bool signal_process(pid_t pid, int signal);

/// Reaps one child. Blocks: until it ends, at most `limit`. False: it has not ended by then.
bool reap_within(pid_t pid, std::chrono::milliseconds limit);

/// A descriptor for a process that need not be a child (pidfd_open(2)), or -1.
int open_pidfd(pid_t pid);

}  // namespace ddp
