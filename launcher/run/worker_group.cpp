#include "launcher/run/worker_group.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/node/process_signals.h"
#include "common/progress/alive_lock.h"
#include "common/progress/survivor_page.h"
#include "common/text/join_words.h"
#include "launcher/os/descendants.h"
#include "launcher/os/process_activity.h"
#include "launcher/os/process_state.h"
#include "launcher/plan/round/leftover_kill.h"
#include "launcher/plan/round/output_drain.h"
#include "launcher/plan/round/survivor_wait.h"
#include "launcher/plan/start/wrapper.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kSettlePause(1);  // between two checks of which workers wait
constexpr std::chrono::milliseconds kDrainPause(20);  // between two checks of the writer

Escalation::Action apply(Escalation& escalation, const std::optional<AgentEvent>& event) {
  const Clock::time_point now = Clock::now();
  if (!event) return escalation.note_deadline(now);
  if (std::holds_alternative<KillCommanded>(*event)) return escalation.note_kill_command(now);
  const auto* const came = std::get_if<SignalReceived>(&*event);
  if (came != nullptr) return escalation.note_signal(came->signal, came->at, now);
  return Escalation::Action::wait;
}

SurvivorWait::Result survival_after(const std::optional<AgentEvent>& event) {
  if (event && std::holds_alternative<KillCommanded>(*event))
    return SurvivorWait::note_kill_command();
  const auto* const came = event ? std::get_if<SignalReceived>(&*event) : nullptr;
  return came != nullptr ? SurvivorWait::note_signal(came->stops) : SurvivorWait::Result::waiting;
}

/// How a process has failed that the kernel is still taking apart. Nothing: it has not, or only its
/// parent's wait will tell.
std::optional<ExitStatus> early_failure(pid_t pid) {
  const ProcessState state = read_process_state(pid);
  if (!state.is_exiting || state.wait_status == 0 || !ends_as_a_whole(pid)) return std::nullopt;
  if (WIFSIGNALED(state.wait_status))
    return ExitStatus{0, WTERMSIG(state.wait_status), WCOREDUMP(state.wait_status)};
  return ExitStatus{WEXITSTATUS(state.wait_status), 0, false};
}

}  // namespace

WorkerGroup::WorkerGroup(const AgentParts& parts,
                         const RoundFacts& facts,
                         Leftovers& leftovers,
                         DebugTerminal& terminal,
                         const std::vector<pid_t>& earlier_children)
    : parts_(parts),
      facts_(facts),
      leftovers_(leftovers),
      terminal_(terminal),
      mux_(parts.io, parts.writer, parts.spec),
      marker_("DDP_AGENT_ID=" + facts.agent_id),
      earlier_children_(earlier_children),
      orphans_(parts, leftovers, earlier_children, workers_) {}

WorkerGroup::~WorkerGroup() {
  end_now();
}

void WorkerGroup::end_now() {
  std::vector<Session> sessions;
  // Collect sessions before the workers are reaped: afterwards a session's number may be reused.
  for (const auto& worker : workers_) {
    if (!worker->process->is_reaped()) sessions.push_back(worker->session);
    worker->process->signal(SIGKILL);  // all at once, then each destructor reaps
    parts_.deaths.forget(alive_word(*worker->page));
  }
  if (!sessions.empty()) {
    kill_all_in_cgroup();
    kill_descendants(marker_, sessions);
  }
  for (const Session& session : sessions)
    parts_.guard.forget_session(session.number);
  terminal_.close();
  workers_.clear();
  alive_ = 0;
}

void WorkerGroup::start(const std::vector<Placement>& placements,
                        const std::shared_ptr<const OwnedDir>& directory) {
  begin_ = Clock::now();
  kill_deadline_.reset();
  for (const Placement& placement : placements) {
    const auto index = static_cast<std::size_t>(placement.local_rank);
    if (index < workers_.size() && workers_[index]->is_survivor) {
      take_over(*workers_[index], placement);
    } else {
      start_one(placement, directory);
    }
  }
  directories_.clear();
}

void WorkerGroup::take_over(Worker& worker, const Placement& placement) {
  worker.is_survivor = false;
  // Nodes may have come or gone, so the worker may have a new rank. Its lines show it from now on.
  if (placement != worker.placement) {
    worker.placement = placement;
    set_prefixes(worker);
  }
  begin_next_round(survivor_page(*worker.page), identity_in_round(placement, facts_.round));
}

void WorkerGroup::start_one(const Placement& placement,
                            const std::shared_ptr<const OwnedDir>& directory) {
  auto worker = std::make_unique<Worker>();
  worker->placement = placement;
  const WorkerFiles files = place_files(parts_.spec, facts_, placement, parts_.scratch.path());
  worker->error_file = files.error_file;
  // Before the fork, so that the worker's page says from the start whether it may outlive a round.
  survivor_page(*worker->page).is_wanted = parts_.spec.keeps_survivors ? 1 : 0;
  survivor_page(*worker->page).round = facts_.round;
  if (!facts_.log_dir.empty())
    prepare_log_file(directory, files.error_file);  // the worker makes it
  worker->output = open_stream(*worker, directory, files, WorkerStream::output);
  worker->errors = open_stream(*worker, directory, files, WorkerStream::errors);
  ProcessSpec process = plan_process(placement, worker->error_file.string(), worker->page.fd());
  process.stdout_fd = worker->output->write_end();
  process.stderr_fd = worker->errors->write_end();
  process.inherited_fd = worker->page.fd();
  process.lock_fd = parts_.lock != nullptr ? parts_.lock->fd() : -1;
  worker->has_terminal = placement.local_rank == facts_.debug_rank;
  // The others must not read what is typed for it.
  const bool is_shut_off = parts_.spec.gives_terminal() && !worker->has_terminal;
  const Descriptor nothing(is_shut_off ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
  process.stdin_fd = nothing.fd();
  if (worker->has_terminal) terminal_.open(process, facts_.terminal);
  if (cgroup_ != nullptr) process.cgroup_fd = cgroup_->fd();
  if (is_wrapped(parts_.spec.wrappers, placement.rank)) {
    Command command{process.executable, process.arguments};
    worker->program_line = program_line(command);
    wrap(command, parts_.spec.wrappers, placement, host_);
    process.executable = std::move(command.executable);
    process.arguments = std::move(command.arguments);
  }
  if (!process.cpus.empty())
    parts_.console.debug(process.label + ": CPUs " + join_ranges(process.cpus));
  const bool may_copy_template = !worker->has_terminal && worker->program_line.empty();
  worker->process = start_process(process, may_copy_template);
  worker->pid = worker->process->pid();
  worker->session = session_of(worker->pid);
  worker->started_at = Clock::now();
  set_prefixes(*worker);
  // At once: from here on, however this agent ends, the guard must find this session. Until here
  // the death signal covers the worker.
  parts_.guard.watch_session(worker->session);
  const std::string place = worker->process->is_in_cgroup() ? ", in" : ", could not be started in";
  parts_.console.debug(process.label + ": pid " + std::to_string(worker->pid) +
                       (process.cgroup_fd >= 0 ? place + " the job's cgroup" : ""));
  // Close our own ends, so that a pipe ends with the last worker process that has it open.
  worker->output->close_write_end();
  worker->errors->close_write_end();
  worker->page.close_fd();

  const auto index = static_cast<std::size_t>(placement.local_rank);
  if (index == workers_.size()) workers_.emplace_back();
  workers_[index] = std::move(worker);
  ++alive_;
  asio::co_spawn(parts_.io, wait_for_exit(index), rethrow);
  asio::co_spawn(parts_.io, read_output(*workers_[index]->output), rethrow);
  asio::co_spawn(parts_.io, read_output(*workers_[index]->errors), rethrow);
}

ProcessSpec WorkerGroup::plan_process(const Placement& placement,
                                      const std::string& error_file,
                                      int page_fd) const {
  ProcessSpec process;
  process.label = "rank " + std::to_string(placement.rank);
  process.executable = parts_.spec.executable;
  process.arguments = worker_arguments(parts_.spec, placement, facts_.has_debugger);
  process.environment = worker_environment(
      parts_.spec, added_environment(parts_.spec, placement, facts_, error_file, page_fd));
  if (!parts_.spec.cpu_sets.empty())
    process.cpus = parts_.spec.cpu_sets[static_cast<std::size_t>(placement.local_rank)];
  return process;
}

/// A template that fails once is not asked again: the rank is started as without it.
std::unique_ptr<Process> WorkerGroup::start_process(const ProcessSpec& spec,
                                                    bool may_copy_template) {
  if (template_ != nullptr && !template_->is_retired() && may_copy_template) {
    auto copied = template_->copy(spec);
    if (auto* const process = std::get_if<std::unique_ptr<Process>>(&copied))
      return std::move(*process);
    parts_.console.warning(template_name(parts_.spec) + ": " + spec.label + ": " +
                           std::get<std::string>(copied) + "; starting without it");
    template_->retire();
  }
  return std::make_unique<Process>(parts_.io, spec);
}

/// Opens the directory of `file` below `directory`, and makes it if it is not there. A later round
/// has work to lose, so it goes on without files. Errors: SystemError, in the first round.
LogFile WorkerGroup::prepare_log_file(const std::shared_ptr<const OwnedDir>& directory,
                                      const std::filesystem::path& file) {
  if (!directory || file.empty()) return {};
  const std::filesystem::path above = file.parent_path();
  std::shared_ptr<const OwnedDir>& found = directories_[above];
  try {
    if (!found) {
      found = std::make_shared<const OwnedDir>(
          directory->enter(above.lexically_relative(directory->path())));
    }
  } catch (const SystemError& error) {
    if (facts_.round == 0) throw;
    if (!has_printed_problem_) parts_.console.warning(error.what());
    has_printed_problem_ = true;
  }
  return {found, file.filename().string()};
}

std::unique_ptr<LogStream> WorkerGroup::open_stream(
    const Worker& worker,
    const std::shared_ptr<const OwnedDir>& directory,
    const WorkerFiles& files,
    WorkerStream stream) {
  const Placement& placement = worker.placement;
  const bool is_output = stream == WorkerStream::output;
  LogStream::Route route;
  route.stream = stream;
  route.plan = plan_stream(parts_.spec.logs, parts_.spec.has_run_dir, placement.local_rank, stream);
  route.log_file = prepare_log_file(directory, is_output ? files.output : files.errors);
  route.filtered_file =
      prepare_log_file(directory, is_output ? files.filtered_output : files.filtered_errors);
  route.waits_for_answer = [&worker] { return waits_for_answer(worker.pid); };
  return std::make_unique<LogStream>(
      parts_.io, mux_, route, "rank " + std::to_string(placement.rank));
}

void WorkerGroup::set_prefixes(const Worker& worker) {
  const LogSpec& logs = parts_.spec.logs;
  const Placement& placement = worker.placement;
  for (LogStream* const stream : {worker.output.get(), worker.errors.get()}) {
    const bool is_output = stream == worker.output.get();
    const PrefixFacts facts{.placement = placement,
                            .role = parts_.spec.role,
                            .host = host_,
                            .pid = worker.pid,
                            .stream = is_output ? WorkerStream::output : WorkerStream::errors};
    const StreamPlan plan =
        plan_stream(logs, parts_.spec.has_run_dir, placement.local_rank, facts.stream);
    stream->set_prefix(Prefix(logs, plan, facts), placement);
  }
}

asio::awaitable<void> WorkerGroup::wait_for_exit(std::size_t index) {
  const Worker& worker = *workers_[index];
  const std::optional<ExitStatus> status = co_await worker.process->wait();
  if (!status) co_return;
  const Clock::time_point at = Clock::now();
  if (status->is_success() && !worker.stop_sent) co_await orphans_.report_of(worker);
  orphans_.kill_group_of(worker);
  parts_.inbox.push(WorkerExited{index, *status, at});
}

asio::awaitable<void> WorkerGroup::read_output(LogStream& stream) {
  co_await stream.pump();
  parts_.inbox.push(OutputEnded());
}

const Worker* WorkerGroup::note(const AgentEvent& event) {
  if (const auto* const exit = std::get_if<WorkerExited>(&event)) return note_exit(*exit);
  if (const auto* const dying = std::get_if<WorkerDying>(&event)) return note_dying(*dying);
  if (std::holds_alternative<SigchldReceived>(event)) orphans_.reap();
  return nullptr;
}

void WorkerGroup::look_for_deaths() {
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = *workers_[i];
    // A wrapper may have work to do after its program, and its exit code counts. A survivor belongs
    // to no round: the next one finds it.
    if (worker.ending || worker.is_survivor || !worker.program_line.empty()) continue;
    if (const std::optional<ExitStatus> status = early_failure(worker.pid))
      parts_.inbox.push(WorkerDying{i, worker.pid, *status, now});
    else
      parts_.deaths.watch(alive_word(*worker.page), worker.pid);
  }
}

/// Ignores a death of an earlier round, and one that is known.
const Worker* WorkerGroup::note_dying(const WorkerDying& dying) {
  if (dying.index >= workers_.size()) return nullptr;
  Worker& worker = *workers_[dying.index];
  if (worker.pid != dying.pid || worker.ending || worker.is_survivor) return nullptr;
  set_ending(worker, dying.status, dying.at - begin_);
  return &worker;
}

const Worker* WorkerGroup::note_exit(const WorkerExited& exit) {
  Worker& worker = *workers_[exit.index];
  const bool is_wrapped = !worker.program_line.empty();
  const bool was_known = worker.ending.has_value();
  if (!was_known) {
    set_ending(
        worker, is_wrapped ? seen_through_wrapper(exit.status) : exit.status, exit.at - begin_);
  }
  worker.ending->at = exit.at - begin_;  // in order, even if several were found dying at once
  parts_.deaths.forget(alive_word(*worker.page));
  parts_.guard.forget_session(worker.pid);  // before the reaping: afterwards the pid may be reused
  worker.process->reap();
  if (worker.has_terminal) terminal_.close_worker_end();
  worker.is_survivor = false;  // the next round starts its rank again
  --alive_;
  orphans_.reap();  // orphans that may have ended before it
  return was_known ? nullptr : &worker;
}

void WorkerGroup::signal_all(int signal) {
  for (const auto& worker : workers_) {
    if (worker->process->is_reaped() || worker->is_survivor) continue;
    worker->stop_sent = true;
    if (signal == SIGKILL) worker->kill_sent = true;
    send_signal(*worker, signal);
  }
  if (signal == SIGKILL && !kill_deadline_) kill_deadline_ = Clock::now() + kKillWait;
}

void WorkerGroup::kill_all_in_cgroup() const {
  if (cgroup_ != nullptr) kill_cgroup(cgroup_->round_path());
}

std::size_t WorkerGroup::survivors() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(workers_, [](const auto& worker) { return worker->is_survivor; }));
}

std::size_t WorkerGroup::dying() const {
  return static_cast<std::size_t>(std::ranges::count_if(workers_, [](const auto& worker) {
    return worker->ending && !worker->process->is_reaped();
  }));
}

void WorkerGroup::give_up_survivors() {
  for (const auto& worker : workers_)
    worker->is_survivor = false;
}

asio::awaitable<void> WorkerGroup::settle() {
  // With children from before ddp-launch, orphans of a dead worker cannot be told apart from
  // theirs, so no worker may survive.
  if (!earlier_children_.empty()) co_return;
  const SurvivorWait wait(Clock::now());
  SurvivorWait::Result result = wait.advance(keep_survivors(), Clock::now());
  while (result == SurvivorWait::Result::waiting) {
    const std::optional<AgentEvent> event = co_await parts_.inbox.next(Clock::now() + kSettlePause);
    if (event) note(*event);
    result = survival_after(event);
    if (result == SurvivorWait::Result::waiting)
      result = wait.advance(keep_survivors(), Clock::now());
  }
  if (result == SurvivorWait::Result::nobody_survives) give_up_survivors();
}

std::size_t WorkerGroup::keep_survivors() {
  std::size_t others = 0;
  for (const auto& worker : workers_) {
    if (!may_survive(*worker) || keep_if_waiting(*worker)) continue;
    kill_if_stopped(*worker);
    ++others;
  }
  return others;
}

asio::awaitable<void> WorkerGroup::end(StopReason reason, Escalation escalation) {
  using Action = Escalation::Action;
  // Write the page before the signal: the worker's handler reads there why it is to end.
  set_stop_reason(reason);
  signal_all(escalation.begin(Clock::now()));
  Action action = Action::wait;
  while (running() > 0 && action != Action::give_up) {
    const std::optional<AgentEvent> event = co_await parts_.inbox.next(escalation.deadline());
    if (event) note(*event);
    action = apply(escalation, event);
    if (action == Action::kill) signal_all(SIGKILL);
  }
}

asio::awaitable<std::vector<std::string>> WorkerGroup::sweep() {
  // Share one deadline with end(): a process that SIGKILL did not end there gets no second
  // kKillWait.
  const Deadline deadline = kill_deadline_.value_or(Clock::now() + kKillWait);
  const LeftoverKill sweep(!earlier_children_.empty());
  orphans_.reap();
  orphans_.report();
  // Every process that a worker ever started is now below a child of ours: a subreaper inherits
  // orphans before their parent's end is reported (prctl(2)). So without a child /proc need not be
  // read, unless a template's fork that would have inherited them has died itself.
  bool must_search = template_ != nullptr && template_->has_died();
  while (must_search || !LeftoverKill::is_done(running(), orphans_.to_kill().size())) {
    const std::size_t marked =
        LeftoverKill::may_kill_marked(survivors()) ? kill_processes_of_agent() : 0;
    must_search = must_search && marked != 0;
    if (sweep.may_kill_orphans()) {
      for (const pid_t pid : orphans_.to_kill())
        signal_process(pid, SIGKILL);  // our own children, not reaped yet, so the pids are theirs
    }
    if (sweep.is_done_but_for_orphans(running(), marked) || Clock::now() >= deadline) break;
    const std::optional<AgentEvent> event =
        co_await parts_.inbox.next(Clock::now() + Orphans::kScanPause);
    if (event) note(*event);
    orphans_.reap();
  }
  std::vector<std::string> unkilled;
  for (const auto& worker : workers_) {
    if (worker->process->is_reaped() || worker->is_survivor) continue;
    unkilled.push_back(describe_process(worker->pid));
    worker->process->unwatch();
  }
  if (sweep.may_kill_orphans()) {
    for (const pid_t pid : orphans_.to_kill())
      unkilled.push_back(describe_process(pid));
  }
  co_return unkilled;
}

/// Kills what the workers have started, in any session. Returns how many processes it found.
std::size_t WorkerGroup::kill_processes_of_agent() {
  std::vector<Session> sessions;
  for (const auto& worker : workers_)
    if (!worker->process->is_reaped()) sessions.push_back(worker->session);
  std::vector<pid_t> spared;
  if (leftovers_.keeps_any()) spared = leftovers_.kept(orphans_.adopted());
  if (template_ != nullptr) spared.push_back(template_->pid());
  kill_all_in_cgroup();
  return kill_descendants(marker_, sessions, spared);
}

asio::awaitable<void> WorkerGroup::drain() {
  const auto count = [this](bool (LogStream::*holds)() const, bool wanted) {
    std::size_t found = 0;
    for (const auto& worker : workers_) {
      if (worker->is_survivor) continue;
      for (const LogStream* const stream : {worker->output.get(), worker->errors.get()})
        found += (stream->*holds)() == wanted ? 1U : 0U;
    }
    return found;
  };
  terminal_.close_worker_end();  // still open if the worker could not start
  OutputDrain drain;
  const auto open = [&] {
    return count(&LogStream::is_drained, false) + (terminal_.is_open() ? 1U : 0U);
  };
  while (!drain.is_over(open())) {
    const Clock::time_point begin = Clock::now();
    const std::optional<AgentEvent> event = co_await parts_.inbox.next(begin + kDrainPause);
    if (event) note(*event);
    const std::size_t held_back = count(&LogStream::is_held_back, true);
    if (held_back > 0) parts_.writer.give_up_stuck_files();
    drain.note_wait(held_back, Clock::now() - begin);
  }
  for (const auto& worker : workers_) {
    if (worker->is_survivor) continue;
    close_stream(*worker, *worker->output, "stdout");
    close_stream(*worker, *worker->errors, "stderr");
  }
  terminal_.close();
  // Closing the pipes ends the coroutines that read them, and the group must outlive those. No
  // deadline is needed: a closed pipe ends its coroutine in the next turn of the loop.
  while (open() > 0) {
    const std::optional<AgentEvent> event = co_await parts_.inbox.next(kNoDeadline);
    if (event) note(*event);
  }
  for (const auto& worker : workers_)
    if (worker->has_terminal) worker->terminal_lines = terminal_.last_lines();
  // A survivor's lines may still be folded with lines that wait.
  if (survivors() == 0) mux_.finish();
  kill_deadline_.reset();
}

void WorkerGroup::close_stream(const Worker& worker, LogStream& stream, const char* name) {
  if (!stream.is_drained()) {
    parts_.console.warning(name_worker(worker) + ": its " + name + " is cut here: " +
                           (worker.process->is_reaped()
                                ? "a process that is not of this job, or is left running, "
                                  "still holds it open."
                                : "it could not be killed."));
  }
  stream.close_read_end();
}

void WorkerGroup::note_unkilled() {
  constexpr ExitStatus kKilled{0, SIGKILL, false};
  for (const auto& worker : workers_) {
    if (!worker->ending && !worker->is_survivor)
      set_ending(*worker, kKilled, Clock::now() - begin_);
  }
}

void WorkerGroup::set_stop_reason(StopReason reason) {
  for (const auto& worker : workers_)
    if (!worker->is_survivor) worker->page->stop_reason.store(reason, std::memory_order_relaxed);
}

void WorkerGroup::wake() {
  for (const auto& worker : workers_)
    worker->process->signal(SIGCONT);
}

std::size_t WorkerGroup::forward(int signal) {
  return static_cast<std::size_t>(std::ranges::count_if(
      workers_, [signal](const auto& worker) { return forward_signal(*worker, signal); }));
}

bool WorkerGroup::saves_on_stop() const {
  return std::ranges::any_of(workers_, [](const std::unique_ptr<Worker>& worker) {
    return is_opened(*worker->page) && worker->page->saves_on_stop.load() != 0;
  });
}

}  // namespace ddp::launcher
