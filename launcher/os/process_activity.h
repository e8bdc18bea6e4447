// What the kernel shows of a worker's activity, for programs without a progress page. In
// os/ it includes process_state.h, the reader of /proc/PID/stat.
#pragma once

#include <sys/types.h>

#include "launcher/plan/hang/activity.h"

namespace ddp::launcher {

/// Samples the process alone: its state, its memory, and where its main thread waits.
Activity sample_process(pid_t pid);

/// Samples the process and its descendants. Reads a handful of files for each of them, and each
/// thread's list of children. Values that cannot be read are left out.
Activity sample_process_tree(pid_t pid);

/// Whether the process, or a descendant, waits for a line of our stdin, which it has inherited, and
/// that is a terminal which shows what is typed. False where the kernel does not tell.
bool waits_for_answer(pid_t pid);

}  // namespace ddp::launcher
