// A child that shares our memory until it executes a program (vfork(2)), so that neither page
// tables nor the table of descriptors, with entries for all workers, is copied for it. It runs on a
// stack of its own. Trap: until then all its writes, errno included, change our memory; it may only
// make system calls, as after fork(2), and must never return.
#pragma once

#include <sys/types.h>

namespace ddp::launcher {

/// Runs `body(argument)` in a child, and waits until the child has executed a program or ended. The
/// caller must have blocked all signals. In the child they have their defaults, except ignored
/// ones. It shares our descriptors, so `body` calls keep_descriptors_below() of os/descriptors
/// first. `cgroup_fd`: the directory of a cgroup to create it in, or -1. Returns the pid, or -1
/// with errno; ENOSYS also if a cgroup was given on an architecture whose calls are not known.
pid_t clone_child(int cgroup_fd, int (*body)(void*), void* argument);

}  // namespace ddp::launcher
