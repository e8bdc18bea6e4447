#include "launcher/run/agent.h"

#include <algorithm>
#include <csignal>

#include "common/error.h"
#include "common/files.h"
#include "common/units.h"
#include "launcher/os/descendants.h"
#include "launcher/os/resources.h"
#include "launcher/plan/placement.h"

namespace ddp::launcher {
namespace {

constexpr int kRunIdBytes = 16;

RoundFacts first_round(const JobSpec& spec, const std::filesystem::path& run_dir) {
  RoundFacts facts;
  facts.run_id = random_hex(kRunIdBytes);
  facts.user_run_id = spec.random_user_run_id ? facts.run_id : spec.user_run_id;
  facts.run_dir = run_dir;
  return facts;
}

std::optional<RunLock> lock_run(const JobSpec& spec, const std::filesystem::path& directory) {
  if (spec.lock_name.empty()) return {};
  return std::make_optional<RunLock>(directory, spec.lock_name);
}

std::string count(std::size_t workers) {
  return std::to_string(workers) + (workers == 1 ? " worker" : " workers");
}

WorkerReport describe(const Worker& worker) {
  WorkerReport report;
  report.ending = *worker.ending;
  report.local_rank = worker.placement.local_rank;
  report.pid = worker.pid;
  report.ended_at = worker.ended_at;
  report.step = worker.page->step.load(std::memory_order_relaxed);
  report.steps_total = worker.page->steps_total.load(std::memory_order_relaxed);
  report.error_text = read_file(worker.error_file, 1 << 20).value_or("");
  if (!report.error_text.empty()) report.error_file = worker.error_file.string();
  const auto& tail = worker.errors->tail();
  report.last_lines.assign(tail.begin(), tail.end());
  return report;
}

}  // namespace

Agent::Agent(const JobSpec& spec, const std::filesystem::path& run_dir, log::Level lowest)
    : spec_(spec),
      facts_(first_round(spec, run_dir)),
      scratch_(find_variable(spec.environment, "XDG_RUNTIME_DIR"), facts_.run_id),
      guard_(facts_.run_id, scratch_.path()),
      lock_(lock_run(spec, scratch_.path().parent_path())),
      console_(writer_, lowest),
      signals_(io_,
               spec.stop_signals,
               [this](int signal) {
                 if (signal == SIGCHLD) {
                   inbox_.push(ChildChanged());
                 } else {
                   inbox_.push(SignalCame{signal, Clock::now()});
                 }
               }),
      store_(io_, console_, spec),
      group_(io_, inbox_, guard_, writer_, console_, spec, facts_) {
  become_subreaper();
  facts_.master_port = store_.begin_round();
  if (lock_) group_.share_lock(lock_->fd());
  if (run_dir.empty()) return;
  const std::filesystem::path logs = run_dir / "logs" / ("round-" + std::to_string(facts_.round));
  std::error_code error;
  std::filesystem::create_directories(logs, error);
  if (error) throw SystemError("cannot make " + logs.string() + ": " + error.message());
}

Verdict Agent::run() {
  const Clock::time_point begin = Clock::now();
  try {
    asio::co_spawn(io_, story(), rethrow);
    io_.run();
  } catch (const std::exception& error) {
    // A worker could not be started, or the system refused something: an outcome from here on.
    const auto* const ours = dynamic_cast<const Error*>(&error);
    verdict_.failure = error.what();
    verdict_.exit_code = ours != nullptr ? ours->code() : exit_code::kInternal;
  }
  // After a failure: what had been started. The guard ends what that may have left behind.
  group_.end_now();
  verdict_.duration = Clock::now() - begin;
  return std::move(verdict_);
}

asio::awaitable<void> Agent::story() {
  // All nodes have joined (there is one); node ranks are fixed.
  const std::vector<int> workers_of_node{spec_.nproc};
  const std::vector<Placement> placements = place(workers_of_node, 0);
  // Ranks are fixed.
  say_start();
  baseline_ = take_baseline();
  group_.start(placements, scratch_.path());
  store_.start(group_);
  // If one worker could not start, none trains: start() has thrown.
  co_await watch(group_);
  if (group_.alive() > 0) {
    StopOrder order;
    const bool announced = user_stop_ && user_stop_->signal == SIGUSR1;
    order.signal = user_stop_ && !announced ? user_stop_->signal : SIGTERM;
    order.reason = user_stop_ ? StopReason::preempt : StopReason::teardown;
    order.grace = spec_.grace;
    // A scheduler sends SIGTERM some time after it has announced it: that is the first press.
    if (user_stop_ && !announced) order.first_press = user_stop_->at;
    co_await group_.stop(order);
  }
  std::vector<std::string> leftovers = co_await group_.sweep();
  // No process of this round lives on this node, or it is named in `leftovers`.
  co_await group_.drain();
  conclude(group_, std::move(leftovers));
  // The root cause is known and does not change.
  guard_.farewell();
  signals_.close();
  store_.close();
}

/// Until all workers have ended, one has failed, or the job is stopped: by the user, or because one
/// worker was asked to, by somebody else, and the others do not follow it in time.
asio::awaitable<void> Agent::watch(WorkerGroup& group) {
  // Without a deadline: a job may run for weeks, and everything that can happen is an event.
  Deadline deadline = kNoDeadline;
  while (group.alive() > 0 && !group.has_failure() && !user_stop_) {
    const std::optional<Event> event = co_await inbox_.next(deadline);
    if (!event) break;
    group.note(*event);
    if (const auto* const signal = std::get_if<SignalCame>(&*event)) take_signal(*signal);
    const Worker* const leaver = group.leaver();
    if (leaver == nullptr || deadline != kNoDeadline) continue;
    // All ranks agree to stop before one does: they are on their way.
    deadline = Clock::now() + spec_.grace;
    group.tell(StopReason::preempt);
    console_.info("rank " + std::to_string(leaver->placement.rank) + " (pid " +
                  std::to_string(leaver->pid) +
                  ") was asked to stop and has left after a checkpoint; waiting " +
                  format_duration(spec_.grace) + " for the others.");
  }
  if (group.alive() > 0) say_why_stopping();
}

void Agent::take_signal(const SignalCame& came) {
  const auto& listed = spec_.stop_signals;
  const bool stops = std::find(listed.begin(), listed.end(), came.signal) != listed.end();
  // Schedulers announce the end of a node by SIGUSR1: whoever saves checkpoints is to save one.
  const bool announces = came.signal == SIGUSR1 && (spec_.own_worker || group_.has_open_page());
  if (stops || announces) {
    user_stop_ = came;
    return;
  }
  const std::size_t sent = group_.forward(came.signal);
  console_.debug(signal_name(came.signal) + ": passed on to " + count(sent) + " that handle it");
}

void Agent::say_start() {
  console_.debug("guard: pid " + std::to_string(guard_.pid()) + ", run id " + facts_.run_id);
  console_.debug("endpoint: " + spec_.master_addr + ":" + std::to_string(facts_.master_port));
  console_.debug(
      "supervision: pidfd, one session per worker, death signal, subreaper, guard by session and "
      "run id");
}

void Agent::say_why_stopping() {
  if (user_stop_) {
    console_.warning(signal_name(user_stop_->signal) + ": stopping " + count(group_.alive()) +
                     ", they have " + format_duration(spec_.grace) +
                     ". A second SIGINT or SIGTERM kills them now.");
    return;
  }
  if (!group_.has_failure()) {
    console_.error(count(group_.alive()) + " did not follow within " +
                   format_duration(spec_.grace) + "; stopping them.");
  }
  for (const auto& worker : group_.workers()) {
    if (!worker->ending || !has_failed(*worker->ending)) continue;
    console_.error("rank " + std::to_string(worker->placement.rank) + " (pid " +
                   std::to_string(worker->pid) +
                   ") has failed: " + to_text(worker->ending->status) + "; stopping the other " +
                   count(group_.alive()) + ".");
  }
}

void Agent::conclude(const WorkerGroup& group, std::vector<std::string> leftovers) {
  const std::vector<Ending> endings = group.endings();
  std::optional<int> user_signal;
  if (user_stop_) user_signal = user_stop_->signal;
  verdict_.outcome = judge(endings, user_signal);
  verdict_.exit_code = exit_code_of(verdict_.outcome, endings);
  for (const auto& worker : group.workers()) {
    if (worker->ending) verdict_.workers.push_back(describe(*worker));
  }
  if (const auto* const failed = std::get_if<Failed>(&verdict_.outcome)) {
    WorkerReport& root = verdict_.workers[failed->root_cause];
    DeadWorker dead{root.ending.status, root.pid, spec_.executable, {}};
    std::error_code ignored;
    dead.directory = std::filesystem::current_path(ignored);
    root.findings = post_mortem(dead, baseline_);
  }
  verdict_.leftovers = std::move(leftovers);
  if (!verdict_.leftovers.empty() && verdict_.exit_code == exit_code::kOk) {
    verdict_.exit_code = exit_code::kInternal;
  }
  // Error files stay after a bad end: the report names them.
  for (const WorkerReport& worker : verdict_.workers) {
    if (verdict_.exit_code != exit_code::kOk && !worker.error_file.empty()) scratch_.keep();
  }
}

}  // namespace ddp::launcher
