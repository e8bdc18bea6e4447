// Where our descriptors lie. A worker's first table of descriptors is a copy of ours up to the
// highest number that it needs, so what lives here as long as a worker lies above, and the low
// numbers, free again after each start, are what the next worker is given.
#pragma once

namespace ddp::launcher {

/// The same under a high number; closes `fd`. Returns `fd` itself where the limit of descriptors
/// has no room there, and a negative one as it is.
int move_up(int fd);

/// Makes room for `count` of them up there. To be called while there is one thread: when there are
/// more, the kernel lets anyone who needs more room wait for a grace period of RCU, some
/// milliseconds (expand_fdtable() of fs/file.c). Without effect where the limit of descriptors has
/// no room.
void make_room(int count);

/// For a child that shares our descriptors: from here on it has its own, and none from `end` on
/// (close_range(2)). Async-signal-safe. Errors: -1 with errno.
int keep_descriptors_below(int end);

}  // namespace ddp::launcher
