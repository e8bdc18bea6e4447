// What a worker does, as the kernel sees it: for programs that tell nothing themselves. Of os/ it
// knows process_state.h, the reader of /proc/PID/stat.
#pragma once

#include <sys/types.h>

#include "launcher/plan/hang/activity.h"

namespace ddp::launcher {

/// Of the process alone: its state, and where its main thread waits.
Activity glance_at(pid_t pid);

/// Of the process and all that it has started and that is still below it. Reads a handful of files
/// for each of them, and the list of children of each thread. What cannot be read is left out.
Activity watch_closely(pid_t pid);

}  // namespace ddp::launcher
