#include "launcher/run/node_workers.h"

#include <csignal>
#include <memory>
#include <utility>

#include "common/error.h"
#include "common/node/driver_query.h"
#include "launcher/os/descendants.h"
#include "launcher/os/interfaces.h"
#include "launcher/os/probe_query.h"
#include "launcher/plan/round/node_silence.h"
#include "launcher/plan/start/gpu_memory.h"
#include "launcher/plan/start/log_layout.h"
#include "launcher/plan/start/placement.h"
#include "launcher/run/group_end.h"
#include "launcher/run/preload.h"
#include "launcher/run/stack_collector.h"

namespace ddp::launcher {
namespace {

std::vector<pid_t> children_but(pid_t known) {
  std::vector<pid_t> pids = children();
  std::erase(pids, known);
  return pids;
}

/// A source. Owners of the query: this coroutine, and the caller, which may give it up.
asio::awaitable<void> pass_on(std::shared_ptr<ProbeQuery> query, Inbox<AgentEvent>& inbox) {
  GpuHoldersReported report;
  const NvmlGpus nvml = read_driver(co_await query->answer()).nvml;
  for (std::size_t i = 0; i < nvml.gpus.size(); ++i) {
    for (const int pid : nvml.uses[i].owners)
      report.holders.push_back({nvml.gpus[i].minor, pid});
  }
  inbox.push(std::move(report));
}

/// Null: the GPUs cannot be queried.
std::shared_ptr<ProbeQuery> ask(const AgentParts& parts, WorkerGroup& group) {
  try {
    auto query =
        std::make_shared<ProbeQuery>(parts.io, driver_question(CudaStart::never), kDriverLimit);
    group.set_helpers({query->pid()});
    asio::co_spawn(parts.io, pass_on(query, parts.inbox), rethrow);
    return query;
  } catch (const SystemError&) {
    return nullptr;
  }
}

/// Waits, between two rounds, until the driver has freed the GPU memory of the workers that have
/// ended. It does so some time after a process is gone; a new worker that starts before that may
/// run out of memory. Prints which workers it waits for, and which processes hold memory at the
/// limit. Suspends: until no worker of `former` holds any, at most GpuMemoryWait::kLimit, or until
/// `commands` end the round. If the GPUs cannot be queried, it does not wait. `group` has no worker
/// yet.
asio::awaitable<void> wait_for_gpu_memory(const AgentParts& parts,
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
    const auto* const report = std::get_if<GpuHoldersReported>(&*event);
    if (report == nullptr) continue;
    query.reset();
    const GpuMemoryWait::Decision decision = wait.note_holders(report->holders, Clock::now());
    if (decision.is_warning) {
      parts.console.warning(decision.line);
    } else if (!decision.line.empty()) {
      parts.console.info(decision.line);
    }
    if (decision.waits) next = Clock::now() + GpuMemoryWait::kPause;
  }
  if (query) query->give_up();
  group.set_helpers({});
}

}  // namespace

NodeWorkers::NodeWorkers(const AgentParts& parts,
                         RoundFacts facts,
                         std::shared_ptr<const OwnedDir> log_dir)
    : parts_(parts),
      facts_(std::move(facts)),
      log_dir_(std::move(log_dir)),
      earlier_children_(children_but(parts.guard.pid())),
      cgroup_(facts_.agent_id),
      leftovers_(parts.spec.keep_daemons, cgroup_, parts.console),
      terminal_(parts_) {
  make_group();
  prepare_cgroup();
}

/// The guard learns of the cgroup before it exists.
void NodeWorkers::prepare_cgroup() {
  parts_.guard.watch_cgroup(cgroup_.path());
  cgroup_.make();
  cgroup_.begin_round(0);
}

void NodeWorkers::make_group() {
  group_ = std::make_unique<WorkerGroup>(parts_, facts_, leftovers_, terminal_, earlier_children_);
  group_->use_cgroup(cgroup_);
  if (!template_) return;
  if (template_->pid() == 0 && !template_->is_retired()) {
    parts_.console.warning(template_name(parts_.spec) +
                           (parts_.spec.warm_start ? ": the template" : ": the template's fork") +
                           " has ended; starting without it");
    template_->retire();
  }
  if (template_->pid() != 0) group_->use_template(template_.get());
}

asio::awaitable<void> NodeWorkers::begin(StartRound start, Addresses addresses) {
  if (has_survivors_) co_await clear_up_after_survivors();
  const JobSpec& spec = parts_.spec;
  const bool is_first = !std::exchange(has_begun_, true);
  // The lease begins here: an agent that is stopped while it waits for others harms nobody.
  if (spec.max_nodes > 1 && is_first) parts_.guard.set_lease(kLease);
  facts_.round = start.round;
  facts_.master_port = start.master_port;
  facts_.master_addr = std::move(addresses.store);
  facts_.has_debugger = start.has_debugger;
  facts_.terminal = spec.debug_rank ? std::nullopt : start.terminal;
  facts_.debug_rank = facts_.terminal ? facts_.terminal->local_rank : spec.debug_rank;
  if (spec.max_nodes > 1) facts_.interface = interface_of(addresses.own);
  // By itself Gloo would take 127.0.0.1.
  if (spec.max_nodes == 1 && spec.facts.loopback != kDefaultLoopback)
    facts_.interface = interface_of(spec.facts.loopback);
  // Only this node's own command decides whether it writes files.
  if (spec.has_run_dir) facts_.run_dir = start.run_dir;
  if (is_first && !spec.has_run_dir && !start.run_dir.empty()) {
    parts_.console.warning(
        "node 0 has a run directory, " + start.run_dir +
        ", but this node was started without a job file or --output: it is not used.");
  }
  if (has_survivors_) co_return;  // the same group goes on
  if (start.round > 0) cgroup_.begin_round(start.round);
  make_group();
}

asio::awaitable<void> NodeWorkers::wait_for_gpus(const NodeCommands& commands) {
  std::vector<FormerWorker> former = std::exchange(former_, {});
  if (former.empty() || has_survivors_) co_return;  // survivors run on CPUs
  co_await wait_for_gpu_memory(parts_, *group_, commands, std::move(former));
}

asio::awaitable<void> NodeWorkers::preload(const StartRound& start, const NodeCommands& commands) {
  if (!has_template(parts_.spec) || has_preloaded_) co_return;
  std::vector<Placement> placements =
      place(start.workers_of_node, start.role_of_node, start.node_rank);
  const PreloadParts parts{parts_.io,
                           parts_.inbox,
                           parts_.console,
                           *group_,
                           parts_.spec,
                           parts_.scratch.path().parent_path(),
                           commands,
                           facts_.has_debugger};
  template_ = co_await make_template(parts, std::move(placements));
  // Without us it ends by itself, unless it is stopped.
  const pid_t parent = template_ ? template_->parent_of_copies() : 0;
  if (parent != 0) parts_.guard.watch_session(session_of(parent));
  has_preloaded_ = !commands.end_command();
}

/// Errors: SystemError in the first round. A later round has work to lose, so it goes on without
/// files.
void NodeWorkers::open_run_dir() {
  try {
    run_dir_ = std::make_shared<const OwnedDir>(OwnedDir::require(facts_.run_dir));
  } catch (const SystemError& error) {
    if (facts_.round == 0) throw;
    parts_.console.warning(std::string(error.what()) + " This node writes no files.");
  }
}

/// Removes the logs of an old round: in a job that restarts for days most rounds' logs look alike.
void NodeWorkers::forget_logs() {
  const std::optional<int> round = round_to_forget(facts_.round);
  if (!round || (!log_dir_ && !run_dir_)) return;
  std::shared_ptr<const OwnedDir> above = log_dir_;
  if (!above) {
    std::string why_not;
    std::optional<OwnedDir> logs = run_dir_->find("logs", why_not);
    if (logs) above = std::make_shared<const OwnedDir>(std::move(*logs));
  }
  if (!above) return;
  parts_.writer.remove(above, round_name(facts_, *round));
  if (*round != kRoundsWithLogs) return;  // print this once
  const std::string many = std::to_string(kRoundsWithLogs);
  parts_.console.info("the logs of the first and the last " + many +
                      " rounds are kept; those between are removed");
}

GroupStarted NodeWorkers::start(const StartRound& start) {
  baseline_ = take_baseline();
  // Open it once: if it is renamed later, our files still go there.
  const bool has_files = !facts_.run_dir.empty() && !log_dir_ && !refuses_files(parts_.spec.logs);
  if (has_files && !run_dir_) open_run_dir();
  forget_logs();
  group_->start(place(start.workers_of_node, start.role_of_node, start.node_rank),
                log_dir_ ? log_dir_ : run_dir_);
  GroupStarted started;
  started.round = start.round;
  started.begin_ns = group_->began_at().time_since_epoch().count();
  for (const auto& worker : group_->workers())
    started.pids.push_back(worker->pid);
  return started;
}

asio::awaitable<GroupEnded> NodeWorkers::end(const NodeCommands& commands) {
  if (commands.end_command()->keeps_survivors && parts_.spec.keeps_survivors)
    co_await group_->settle();
  if (group_->alive() > group_->survivors()) {
    if (commands.end_command()->reason == EndReason::hang) {
      StackCollector collector(parts_, *group_);
      co_await collector.collect();
    }
    // Read the command only now. While workers settled or printed stacks, it may have become a
    // SIGKILL, or the user may have sent a stop request.
    const Escalation escalation = commands.escalation();
    co_await group_->end(commands.end_command()->stop_reason(), escalation);
  }
  std::vector<std::string> unkilled = co_await group_->sweep();
  // From here no process of this round lives on this node, except survivors and those in
  // `unkilled`.
  co_await group_->drain();
  for (const auto& worker : group_->workers())
    if (worker->ending) former_.push_back(FormerWorker{worker->placement.rank, worker->pid});
  has_survivors_ = group_->survivors() > 0;
  GroupEnded end = describe_group_end(*group_, parts_.spec, facts_, baseline_);
  end.unkilled = std::move(unkilled);
  has_error_files_ = has_error_files_ || names_error_files(end);
  co_return end;
}

/// Clears up after survivors that have died while they waited.
asio::awaitable<void> NodeWorkers::clear_up_after_survivors() {
  std::size_t before = 0;
  // Repeat until none has died meanwhile. While a survivor lives, the sweep spares marked
  // processes, so after the last one's death it has to run again.
  do {
    before = group_->survivors();
    for (const std::string& unkilled : co_await group_->sweep())
      parts_.console.warning("still there from an earlier round: " + unkilled);
    co_await group_->drain();
  } while (group_->survivors() < before);
  has_survivors_ = before > 0;
}

asio::awaitable<void> NodeWorkers::end_survivors() {
  if (!has_survivors_) co_return;
  group_->give_up_survivors();
  const Escalation escalation(SIGKILL, std::chrono::milliseconds(0));
  co_await group_->end(StopReason::teardown, escalation);
  co_await clear_up_after_survivors();
}

}  // namespace ddp::launcher
