// Between two rounds: waits until the driver has freed the GPU memory of the workers that have
// ended. It does so some time after a process is gone; a new worker that starts before that may run
// out of memory. plan/start/gpu_memory decides how long to wait.
#pragma once

#include <vector>

#include "launcher/os/asio.h"
#include "launcher/plan/round/node_commands.h"
#include "launcher/plan/start/gpu_memory.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// Prints which workers it waits for, and which processes hold memory at the limit. Suspends: until
/// no worker of `former` holds any, at most GpuMemoryWait::kLimit, or until `commands` end the
/// round. Errors: none; if the GPUs cannot be queried, it does not wait. All references outlive it;
/// `group` has no worker yet.
asio::awaitable<void> wait_for_gpu_memory(const NodeParts& parts,
                                          WorkerGroup& group,
                                          const NodeCommands& commands,
                                          std::vector<FormerWorker> former);

}  // namespace ddp::launcher
