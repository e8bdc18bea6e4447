// Between two rounds: waits until the GPUs of this node have given back the memory of the workers
// that have ended. The driver frees it some time after the process is gone; a new worker that
// starts before that may run out of memory. How long to wait is decided in plan/start/gpu_memory.
#pragma once

#include <vector>

#include "launcher/os/asio.h"
#include "launcher/os/inbox.h"
#include "launcher/plan/round/node_commands.h"
#include "launcher/plan/start/gpu_memory.h"
#include "launcher/run/agent_events.h"
#include "launcher/run/console.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// Says for whom it waits, and who holds memory at the limit. Suspends: until no worker of `former`
/// holds any, for GpuMemoryWait::kLimit, or until `commands` want the round to end. Errors: none;
/// what cannot be asked is not waited for. All references outlive it; `group` has no worker yet.
asio::awaitable<void> wait_for_gpu_memory(asio::io_context& io,
                                          Inbox<AgentEvent>& inbox,
                                          Console& console,
                                          WorkerGroup& group,
                                          const NodeCommands& commands,
                                          std::vector<FormerWorker> former);

}  // namespace ddp::launcher
