#include "launcher/run/gpu_memory_wait.h"

#include <memory>
#include <utility>

#include "common/error.h"
#include "common/node/driver_query.h"
#include "launcher/os/probe_query.h"

namespace ddp::launcher {
namespace {

/// A source. Owners of the query: this coroutine, and the caller, which may give it up.
asio::awaitable<void> pass_on(std::shared_ptr<ProbeQuery> query, Inbox<AgentEvent>& inbox) {
  GpuHoldersReported told;
  const NvmlGpus nvml = read_driver(co_await query->answer()).nvml;
  for (std::size_t i = 0; i < nvml.gpus.size(); ++i) {
    for (const int pid : nvml.uses[i].owners)
      told.holders.push_back({nvml.gpus[i].minor, pid});
  }
  inbox.push(std::move(told));
}

/// Null: the GPUs cannot be queried.
std::shared_ptr<ProbeQuery> ask(const NodeParts& parts, WorkerGroup& group) {
  try {
    auto query =
        std::make_shared<ProbeQuery>(parts.io, driver_question(CudaStart::never), kDriverLimit);
    group.exempt({query->pid()});
    asio::co_spawn(parts.io, pass_on(query, parts.inbox), rethrow);
    return query;
  } catch (const SystemError&) {
    return nullptr;
  }
}

}  // namespace

asio::awaitable<void> wait_for_gpu_memory(const NodeParts& parts,
                                          WorkerGroup& group,
                                          const NodeCommands& commands,
                                          std::vector<FormerWorker> former) {
  GpuMemoryWait wait(std::move(former), Clock::now());
  std::shared_ptr<ProbeQuery> query = ask(parts, group);
  Deadline next = kNoDeadline;  // time of the next query
  while (!commands.end_command() && (query || next != kNoDeadline)) {
    const std::optional<AgentEvent> event = co_await parts.inbox.next(next);
    if (!event) {
      query = ask(parts, group);
      next = kNoDeadline;
      continue;
    }
    group.note(*event);
    const auto* const told = std::get_if<GpuHoldersReported>(&*event);
    if (told == nullptr) continue;
    query.reset();
    const GpuMemoryWait::Step step = wait.take(told->holders, Clock::now());
    if (step.is_warning) {
      parts.console.warning(step.line);
    } else if (!step.line.empty()) {
      parts.console.info(step.line);
    }
    if (step.waits) next = Clock::now() + GpuMemoryWait::kPause;
  }
  if (query) query->give_up();
  group.exempt({});
}

}  // namespace ddp::launcher
