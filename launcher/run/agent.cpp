#include "launcher/run/agent.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "common/error.h"
#include "common/files.h"
#include "common/units.h"
#include "launcher/os/descendants.h"
#include "launcher/os/resources.h"
#include "launcher/plan/placement.h"
#include "launcher/plan/rerun.h"
#include "launcher/run/log_dir.h"
#include "launcher/run/report.h"
#include "launcher/run/sampler.h"
#include "launcher/run/status.h"

namespace ddp::launcher {
namespace {

constexpr int kRunIdBytes = 16;
constexpr Clock::duration kLookPause = std::chrono::seconds(1);  // between two looks at the workers
constexpr int kLooksPerTimeout = 10;                             // when that is shorter
constexpr std::chrono::seconds kStackWait(2);  // for the stacks of a hanging group

RoundFacts first_round(const JobSpec& spec, const std::filesystem::path& run_dir) {
  RoundFacts facts;
  facts.run_id = random_hex(kRunIdBytes);
  facts.user_run_id = spec.random_user_run_id ? facts.run_id : spec.user_run_id;
  facts.run_dir = run_dir;
  facts.log_dir = make_log_dir(spec, facts.user_run_id);
  if (!facts.log_dir.empty()) log::info("logs in " + facts.log_dir.string());
  return facts;
}

std::string count(std::size_t workers) {
  return std::to_string(workers) + (workers == 1 ? " worker" : " workers");
}

/// A hang is to be seen no later than a second after its time.
Clock::duration look_pause(const JobSpec& spec) {
  if (!spec.hang_timeout) return kLookPause;
  return std::min<Clock::duration>(kLookPause, *spec.hang_timeout / kLooksPerTimeout);
}

std::vector<pid_t> children_but(pid_t known) {
  std::vector<pid_t> pids = children();
  std::erase(pids, known);
  return pids;
}

std::string progress_text(const ProgressPage& page) {
  if (!is_opened(page)) return "";
  return ", phase " + std::string(to_text(page.phase.load(std::memory_order_relaxed))) + ", step " +
         std::to_string(page.step.load(std::memory_order_relaxed));
}

/// When the first worker ended that had not ended well, since the group's begin.
std::chrono::nanoseconds first_failure(const std::vector<Ending>& endings) {
  std::chrono::nanoseconds first = std::chrono::nanoseconds::max();
  for (const Ending& ending : endings) {
    if (has_failed(ending) || was_stopped(ending)) first = std::min(first, ending.at);
  }
  return first;
}

WorkerReport describe(const Worker& worker, Clock::time_point begin) {
  WorkerReport report;
  report.lived = begin + worker.ending->at - worker.started_at;
  report.ending = *worker.ending;
  report.local_rank = worker.placement.local_rank;
  report.pid = worker.pid;
  report.ended_at = worker.ended_at;
  report.step = worker.page->step.load(std::memory_order_relaxed);
  report.steps_total = worker.page->steps_total.load(std::memory_order_relaxed);
  report.error_text = read_file(worker.error_file, 1 << 20).value_or("");
  if (!report.error_text.empty()) report.error_file = worker.error_file.string();
  report.last_lines = worker.errors->tail();
  if (!worker.output->is_shown()) report.hidden_lines = worker.output->tail();
  return report;
}

}  // namespace

std::optional<RunLock> lock_run(const JobSpec& spec) {
  if (spec.lock_name.empty()) return {};
  const auto base = make_scratch_base(find_variable(spec.environment, "XDG_RUNTIME_DIR"));
  return std::make_optional<RunLock>(base, spec.lock_name);
}

Agent::Agent(const JobSpec& spec,
             const std::filesystem::path& run_dir,
             const RunLock* lock,
             log::Level lowest)
    : spec_(spec),
      facts_(first_round(spec, run_dir)),
      scratch_(find_variable(spec.environment, "XDG_RUNTIME_DIR"), facts_.run_id),
      guard_(facts_.run_id, scratch_.path()),
      cgroup_(facts_.run_id),
      lock_(lock),
      console_(
          writer_, lowest, is_colored(spec.logs, ::isatty(STDERR_FILENO) == 1, spec.environment)),
      signals_(io_, spec.stop_signals, [this](int signal) { note_signal(signal); }),
      store_(io_, console_, spec),
      control_(
          io_, scratch_.path(), [this](const std::string& request) { return answer(request); }),
      strangers_(children_but(guard_.pid())) {
  become_subreaper();
  prepare_cgroup();
  begin_round(0);
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
    verdict_.outcome = Outcome();  // that of an earlier round is a line of its own
    verdict_.workers.clear();
    verdict_.exit_code = ours != nullptr ? ours->code() : exit_code::kInternal;
  }
  // After a failure: what had been started. The guard ends what that may have left behind.
  group_->end_now();
  // Error files stay after a bad end: the report names them.
  for (const WorkerReport& worker : verdict_.workers) {
    if (verdict_.exit_code != exit_code::kOk && !worker.error_file.empty()) scratch_.keep();
  }
  verdict_.duration = Clock::now() - begin;
  verdict_.log_dir = facts_.log_dir;
  return std::move(verdict_);
}

asio::awaitable<void> Agent::story() {
  // All nodes have joined (there is one); node ranks are fixed.
  const std::vector<int> workers_of_node{spec_.nproc};
  const std::vector<Placement> placements = place(workers_of_node, 0);
  // Ranks are fixed.
  say_start();
  store_.start();
  control_.start();
  RestartPolicy policy(RestartLimits{spec_.max_restarts, spec_.died_within});
  while (true) {
    baseline_ = take_baseline();
    group_->start(placements, scratch_.path());
    // If one worker could not start, none trains: start() has thrown.
    co_await watch();
    if (group_->alive() > 0) co_await stop();
    std::vector<std::string> leftovers = co_await group_->sweep();
    // No process of this round lives on this node, or it is named in `leftovers`.
    co_await group_->drain();
    const RoundResult round = conclude(std::move(leftovers));
    // The root cause is known and does not change.
    const RestartDecision decision = policy.decide(round);
    say_restart(round, decision);
    if (!decision.restart) break;
    co_await pause(decision);
    if (press_) {
      // It came after the failure: there is no worker any more that could be told.
      verdict_.outcome = Stopped{press_->signal};
      verdict_.exit_code = exit_code::of_signal(press_->signal);
      break;
    }
    begin_round(policy.used());
  }
  guard_.farewell();
  signals_.close();
  store_.close();
  control_.close();
}

/// Told to the guard before it is there.
void Agent::prepare_cgroup() {
  guard_.cover(cgroup_.path());
  cgroup_.make();
  cgroup_.begin_round(0);
  if (cgroup_.path().empty()) return;
  if (!can_be_born_in(cgroup_.fd())) cgroup_.give_up();
}

/// An empty store and a new group.
void Agent::begin_round(int round) {
  facts_.round = round;
  verdict_.rounds = round + 1;
  facts_.master_port = store_.begin_round();
  hang_.reset();
  group_ = std::make_unique<WorkerGroup>(
      io_, inbox_, guard_, writer_, console_, spec_, facts_, strangers_);
  if (round > 0) cgroup_.begin_round(round);
  group_->use_cgroup(cgroup_);
  if (lock_) group_->share_lock(lock_->fd());
  watchdog_.emplace(WatchLimits{spec_.hang_timeout, spec_.own_worker});
}

/// Until all workers have ended, one has failed or hangs, or the job is stopped: by the user, or
/// because one worker was asked to, by somebody else, and the others do not follow it in time.
asio::awaitable<void> Agent::watch() {
  // A job may run for weeks: what ends it is an event, or the look that is taken once a second.
  Deadline leave_deadline = kNoDeadline;
  const Clock::duration pause = look_pause(spec_);
  Deadline look = Clock::now() + pause;
  while (group_->alive() > 0 && !group_->has_failure() && !user_stop_ && !hang_) {
    const std::optional<Event> event = co_await inbox_.next(std::min(leave_deadline, look));
    // An ending remembers whether its worker had been in the store.
    if (event && std::holds_alternative<WorkerExited>(*event)) store_.note_joined(*group_);
    if (event) group_->note(*event);
    const auto* const signal = event ? std::get_if<SignalCame>(&*event) : nullptr;
    if (signal != nullptr) take_signal(*signal);
    const Clock::time_point now = Clock::now();
    if (now >= look) {
      look_after_workers();
      look = now + pause;
    }
    if (now >= leave_deadline) break;
    const Worker* const leaver = group_->leaver();
    if (leaver == nullptr || leave_deadline != kNoDeadline) continue;
    // All ranks agree to stop before one does: they are on their way.
    leave_deadline = now + spec_.grace;
    group_->tell(StopReason::preempt);
    console_.info(who(*leaver) + " was asked to stop and has left after a checkpoint; waiting " +
                  format_duration(spec_.grace) + " for the others.");
  }
  store_.note_joined(*group_);
  if (group_->alive() > 0) say_why_stopping();
}

asio::awaitable<void> Agent::stop() {
  for (const int rank : watchdog_->frozen())
    group_->note_frozen(rank);
  if (hang_) co_await collect_stacks();
  StopOrder order;
  const bool announced = user_stop_ && user_stop_->signal == SIGUSR1;
  order.signal = user_stop_ && !announced ? user_stop_->signal : SIGTERM;
  order.reason = user_stop_ ? StopReason::preempt : StopReason::teardown;
  order.grace = spec_.grace;
  // A scheduler sends SIGTERM some time after it has announced it: that is the first press.
  if (user_stop_ && !announced) order.first_press = user_stop_->at;
  co_await group_->stop(order);
}

/// Every process that prints its stacks on SIGUSR2 is asked to, and gets the time to do so.
asio::awaitable<void> Agent::collect_stacks() {
  const std::size_t asked = group_->forward(SIGUSR2);
  if (asked == 0) co_return;
  group_->wake();  // a stopped one prints nothing
  console_.warning("SIGUSR2: " + count(asked) + " asked for stacks; they are in the lines below.");
  const Deadline deadline = Clock::now() + kStackWait;
  while (group_->alive() > 0) {
    const std::optional<Event> event = co_await inbox_.next(deadline);
    if (!event) break;
    group_->note(*event);
    // A stop that comes now is in a hurry; what is wrong is known already.
    const auto* const signal = std::get_if<SignalCame>(&*event);
    if (signal != nullptr && signal->stops) break;
  }
}

/// Suspends: for the decision's pause, or until the user stops the job.
asio::awaitable<void> Agent::pause(const RestartDecision& decision) {
  const Deadline deadline = Clock::now() + decision.pause;
  while (!press_) {
    const std::optional<Event> event = co_await inbox_.next(deadline);
    if (!event) break;
    group_->note(*event);
  }
}

/// Of `ddp-launch status|stop|logs`.
std::string Agent::answer(const std::string& request) {
  if (request == "status") return describe_status(spec_, facts_, *group_);
  if (request == "logs") return describe_logs(spec_, facts_, *group_);
  if (request != "stop") return "unknown request";
  press_ = SignalCame{SIGTERM, true, Clock::now()};  // whatever signals the user has listed
  inbox_.push(*press_);
  return "stopping " + count(group_->alive()) + " of pid " + std::to_string(::getpid());
}

void Agent::look_after_workers() {
  store_.note_joined(*group_);
  store_.call_roll(*group_);
  std::vector<WorkerSample> samples = take_samples(*group_);
  store_.note_waits(*group_, samples);
  for (const Finding& finding : watchdog_->look(Clock::now() - group_->begin(), samples)) {
    const std::string text = who(group_->worker_of(finding.rank)) + " " + finding.text;
    if (finding.ends_job) {
      hang_ = finding;
    } else {
      console_.warning(text + ". Others may wait for it.");
    }
  }
}

/// From outside, at any time: also while no story waits for it.
void Agent::note_signal(int signal) {
  if (signal == SIGCHLD) {
    inbox_.push(ChildChanged());
    return;
  }
  const auto& listed = spec_.stop_signals;
  // Schedulers announce the end of a node by SIGUSR1: whoever saves checkpoints is to save one.
  const bool announces = signal == SIGUSR1 && (spec_.own_worker || group_->has_open_page());
  const bool stops = announces || std::find(listed.begin(), listed.end(), signal) != listed.end();
  const SignalCame came{signal, stops, Clock::now()};
  if (stops) press_ = came;
  inbox_.push(came);
}

void Agent::take_signal(const SignalCame& came) {
  if (came.stops) {
    user_stop_ = came;
    return;
  }
  const std::size_t sent = group_->forward(came.signal);
  console_.debug(signal_name(came.signal) + ": passed on to " + count(sent) + " that handle it");
}

void Agent::say_start() {
  console_.debug("guard: pid " + std::to_string(guard_.pid()) + ", run id " + facts_.run_id);
  console_.debug("endpoint: " + spec_.master_addr + ":" + std::to_string(facts_.master_port));
  console_.debug(
      "supervision: pidfd, one session per worker, death signal, subreaper, guard by session and "
      "run id, " +
      (cgroup_.path().empty() ? "no cgroup: none is delegated to us"
                              : "cgroup " + cgroup_.path().string()));
}

void Agent::say_why_stopping() {
  if (user_stop_) {
    console_.warning(signal_name(user_stop_->signal) + ": stopping " + count(group_->alive()) +
                     ", they have " + format_duration(spec_.grace) +
                     ". A second SIGINT or SIGTERM kills them now.");
    return;
  }
  if (hang_) {
    console_.error(who(group_->worker_of(hang_->rank)) + " " + hang_->text + "; stopping " +
                   count(group_->alive()) + ".");
    for (const auto& worker : group_->workers()) {
      if (worker->ending) continue;
      console_.info("rank " + std::to_string(worker->placement.rank) + ": " +
                    describe_process(worker->pid) + progress_text(*worker->page));
    }
    return;
  }
  if (!group_->has_failure()) {
    console_.error(count(group_->alive()) + " did not follow within " +
                   format_duration(spec_.grace) + "; stopping them.");
  }
  for (const auto& worker : group_->workers()) {
    if (!worker->ending || !has_failed(*worker->ending)) continue;
    console_.error(who(*worker) + " has failed: " + to_text(worker->ending->status) +
                   "; stopping the other " + count(group_->alive()) + ".");
  }
}

RoundResult Agent::conclude(std::vector<std::string> leftovers) {
  group_->note_leftovers();
  const std::vector<Ending> endings = group_->endings();
  StopCause cause;
  if (user_stop_) cause.user_signal = user_stop_->signal;
  if (hang_) cause.hung_rank = hang_->rank;
  RoundResult round;
  round.outcome = judge(endings, cause);
  round.exit_code = exit_code_of(round.outcome, endings);
  round.lived = Clock::now() - group_->begin();
  round.has_page = group_->has_open_page();
  round.is_clean = leftovers.empty();
  verdict_.workers.clear();
  for (const auto& worker : group_->workers()) {
    round.checkpoint_step = std::max(round.checkpoint_step,
                                     worker->page->checkpoint_step.load(std::memory_order_relaxed));
    verdict_.workers.push_back(describe(*worker, group_->begin()));
  }
  verdict_.outcome = round.outcome;
  verdict_.exit_code = round.exit_code;
  if (const auto* const failed = std::get_if<Failed>(&verdict_.outcome)) {
    WorkerReport& root = verdict_.workers[failed->root_cause];
    DeadWorker dead{root.ending.status, root.pid, spec_.executable, {}};
    std::error_code ignored;
    dead.directory = std::filesystem::current_path(ignored);
    root.findings = post_mortem(dead, baseline_);
    verdict_.rerun =
        rerun_command(spec_, group_->worker_of(root.ending.rank).placement, dead.directory);
    verdict_.teardown = round.lived - first_failure(endings);
  }
  verdict_.hang = hang_ ? hang_->text : "";
  verdict_.leftovers = std::move(leftovers);
  if (!round.is_clean && verdict_.exit_code == exit_code::kOk) {
    verdict_.exit_code = exit_code::kInternal;
  }
  return round;
}

void Agent::say_restart(const RoundResult& round, const RestartDecision& decision) {
  if (decision.restart) {
    auto& earlier = verdict_.earlier_rounds;
    if (earlier.size() == Verdict::kRoundLines) earlier.erase(earlier.begin());
    earlier.push_back(summarize_round(verdict_, facts_.round, round.lived));
    const int left = spec_.max_restarts - facts_.round - 1;
    const std::string when =
        decision.pause.count() == 0 ? "now" : "in " + format_duration(decision.pause);
    if (press_) return;  // there is no next one
    console_.error(earlier.back() + "; round " + std::to_string(facts_.round + 1) + " starts " +
                   when + ", " + std::to_string(left) +
                   (left == 1 ? " restart is left." : " restarts are left."));
    return;
  }
  if (!std::holds_alternative<Failed>(round.outcome)) return;
  if (decision.exit_code != round.exit_code) verdict_.policy = decision.reason;
  verdict_.exit_code = decision.exit_code;
  if (!decision.reason.empty()) console_.info("no further round: " + decision.reason + ".");
}

}  // namespace ddp::launcher
