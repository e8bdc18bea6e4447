// The numbers of our descriptors, and a wait for one. A worker's table of descriptors begins as a
// copy of ours up to the highest number that it needs. So descriptors that live as long as a worker
// get high numbers, and the low ones, free again after each start, serve the next start.
#pragma once

#include <chrono>

namespace ddp::launcher {

/// Moves a descriptor to a high number, and closes `fd`. Returns `fd` itself if the limit of
/// descriptors has no room there, or if it is negative.
int move_to_high_number(int fd);

/// Makes room for `count` descriptors with high numbers. Call it while there is one thread: with
/// more threads the kernel makes a process that needs more room wait for a grace period of RCU,
/// some milliseconds (expand_fdtable() of fs/file.c). No effect if the limit of descriptors has no
/// room.
void grow_descriptor_table(int count);

/// Gives a child that shares our descriptors its own, without those from `end` on (close_range(2)).
/// Async-signal-safe. Errors: -1 with errno.
int keep_descriptors_below(int end);

/// Waits until it is readable, at most `limit`. A signal, as of a child that ends, does not end the
/// wait. False: it is not, or there is no such descriptor.
bool is_readable(int fd, std::chrono::milliseconds limit);

}  // namespace ddp::launcher
