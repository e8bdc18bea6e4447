// A child that borrows our memory until it executes (vfork(2)), so that nothing of ours is copied
// for it: neither page tables nor the table of descriptors, which has entries for all workers that
// are there already. It runs on a stack of its own. Trap: until it executes, all that it writes is
// written here, errno included; it may do nothing but make system calls, as after fork(2), and must
// never return.
#pragma once

#include <sys/types.h>

namespace ddp::launcher {

/// Runs `body(argument)` in a child, and waits until that has executed a program or ended. All
/// signals are to be blocked by the caller. The child has their defaults, but for those that are
/// ignored; it shares our descriptors: keep_descriptors_below() of os/descriptors comes first.
/// `cgroup_fd`: a directory of a cgroup to be born in, or -1. Returns the pid, or -1 with errno;
/// ENOSYS also where a cgroup was asked for and this machine's calls are not known.
pid_t clone_child(int cgroup_fd, int (*body)(void*), void* argument);

}  // namespace ddp::launcher
