#include "launcher/run/agent.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/progress/terminal.h"
#include "launcher/os/descendants.h"
#include "launcher/os/resources.h"
#include "launcher/plan/round/end_round_line.h"
#include "launcher/plan/round/received_signals.h"
#include "launcher/run/coordinator.h"
#include "launcher/run/group_end.h"
#include "launcher/run/job_snapshot.h"
#include "launcher/run/log_dir.h"
#include "launcher/run/node_lines.h"
#include "launcher/run/remote_node_zero.h"
#include "launcher/run/status_reply.h"
#include "launcher/run/worker_samples.h"

namespace ddp::launcher {
namespace {

RoundFacts first_facts(const Rendezvous& rendezvous,
                       const std::string& agent_id,
                       const OwnedDir* log_dir) {
  RoundFacts facts;
  facts.run_id = rendezvous.welcome.run_id;
  facts.user_run_id = rendezvous.welcome.user_run_id;
  facts.agent_id = agent_id;
  facts.job_start = Clock::now();
  if (log_dir != nullptr) facts.log_dir = log_dir->path();
  const auto size = terminal_size(STDERR_FILENO);
  if (size && terminal_size(STDOUT_FILENO)) {
    facts.columns = size->columns;
    facts.rows = size->rows;
  }
  return facts;
}

}  // namespace

Agent::Agent(asio::io_context& io,
             const JobSpec& spec,
             Rendezvous& rendezvous,
             const ChooseRunDir& choose_run_dir,
             const std::filesystem::path& scratch_place,
             const JobLock* lock,
             log::Level lowest)
    : io_(io),
      spec_(spec),
      log_dir_(make_log_dir(spec, rendezvous.welcome.user_run_id)),
      // Two agents of a job may share a machine, and must not end each other's workers.
      agent_id_(rendezvous.link ? make_id() : rendezvous.welcome.run_id),
      scratch_(scratch_place, agent_id_),
      guard_(agent_id_, scratch_.path()),
      console_(writer_,
               lowest,
               is_colored(spec.logs, ::isatty(STDERR_FILENO) == 1, spec.environment),
               spec.logs.progress),
      inbox_(io),
      deaths_(io, [this] { workers_.group().look_for_deaths(); }),
      signals_(io_,
               signals_to_take(spec.listed_signals, spec.max_nodes > 1),
               [this](int signal) { note_signal(signal); }),
      service_(io_, spec.environment),
      control_(
          io_, scratch_.path(), [this](const std::string& request) { return answer(request); }),
      workers_({io,
                inbox_,
                deaths_,
                guard_,
                writer_,
                console_,
                scratch_,
                spec,
                lock,
                [this](const NodeEvent& event) { zero_->send_event(event); }},
               first_facts(rendezvous, agent_id_, log_dir_.get()),
               log_dir_),
      commands_(spec.nproc, spec.grace, /*has_token=*/!spec.token.empty()),
      check_timer_(io) {
  become_subreaper();
  // Already now: a line that is printed before the terminal is raw may be written after it is.
  if (spec_.gives_terminal() && console_.has_terminal()) console_.end_lines_by_return();
  const auto take = [this](const NodeCommand& command) { return note_command(command); };
  const auto why = [this] { return why_slept(); };
  if (rendezvous.link) {
    zero_ = std::make_unique<RemoteNodeZero>(spec_, commands_, console_, rendezvous, take, why);
  } else {
    auto coordinator = std::make_unique<Coordinator>(
        io_, writer_, console_, spec_, rendezvous, take, why, choose_run_dir);
    const auto look = [this, &zero = *coordinator] { return job_snapshot(zero); };
    if (spec_.web) web_ = std::make_unique<WebPage>(io_, spec_, look);
    zero_ = std::move(coordinator);
  }
}

EndJob Agent::run() {
  std::optional<EndJob> failure;
  try {
    asio::co_spawn(io_, run_rounds(), rethrow);
    io_.run();
  } catch (const std::exception& error) {
    // Something here failed. If this node already has the verdict, it stands. Otherwise this
    // failure is the outcome.
    const auto* const ours = dynamic_cast<const Error*>(&error);
    const int code = ours != nullptr ? ours->code() : exit_code::kInternal;
    if (commands_.end_job()) {
      console_.error(error.what());
    } else {
      failure = zero_->fail_job_for_this_node(error.what(), code);
    }
  }
  // After a failure, end the workers that were started. The guard kills what they leave behind.
  workers_.group().end_now();
  workers_.end_template();
  EndJob end = failure ? std::move(*failure) : *commands_.end_job();
  // Error files stay after a bad end: the report names them.
  if (end.exit_code != exit_code::kOk && workers_.has_error_files()) scratch_.keep();
  return end;
}

asio::awaitable<void> Agent::run_rounds() {
  control_.start();
  zero_->start();
  asio::co_spawn(io_, check_periodically(), rethrow);
  if (web_) {
    web_->start();
    console_.info("page about the job: " + web_->url());
  }
  while (true) {
    co_await wait_for_command();
    if (commands_.end_job()) break;
    co_await run_round();
  }
  co_await workers_.end_survivors();
  is_over_ = true;
  check_timer_.cancel();
  guard_.disarm();
  signals_.close();
  deaths_.close();
  service_.close();
  control_.close();
  if (web_) web_->close(*commands_.end_job());
  zero_->close();
}

/// Suspends: until a round is to begin, or the job has ended.
asio::awaitable<void> Agent::wait_for_command() {
  while (!commands_.has_next()) {
    const std::optional<AgentEvent> event = co_await inbox_.next(kNoDeadline);
    if (event) workers_.group().note(*event);
  }
}

asio::awaitable<void> Agent::run_round() {
  const bool is_first = commands_.world_size() == 0;
  const StartRound start = commands_.begin_round();
  const NodeWorkers::Addresses addresses{zero_->store_address(), zero_->own_address()};
  co_await workers_.begin(start, addresses);
  if (is_first) print_supervision(console_, workers_, guard_.pid());
  if (is_first) print_debugged(console_, spec_, workers_.facts());
  if (spec_.max_nodes > 1) print_node(console_, spec_, workers_.facts(), start);
  co_await workers_.wait_for_gpus(commands_);
  if (!commands_.end_command()) co_await workers_.preload(start, commands_);
  if (!commands_.end_command()) start_workers(start);
  // If a worker could not start, node 0 knows, and no worker trains.
  co_await watch_workers();
  commands_.begin_ending();
  const bool is_requested_here = commands_.requested_signal() != 0;
  print_end_round(console_,
                  spec_,
                  workers_.facts(),
                  *commands_.end_command(),
                  workers_.group(),
                  is_requested_here);
  const GroupEnded end = co_await workers_.end(commands_);
  commands_.note_ended();
  zero_->send_event(end);
}

void Agent::start_workers(const StartRound& start) {
  std::optional<GroupStarted> started;
  try {
    started = workers_.start(start);
  } catch (const Error& error) {
    // This is an outcome: node 0 ends the round on all nodes, ours too.
    zero_->send_event(AgentFailed{start.round, error.code(), error.what()});
    return;
  }
  zero_->send_event(*started);
  service_.ready();
}

/// Suspends: until node 0 ends the round, or is lost.
asio::awaitable<void> Agent::watch_workers() {
  while (!commands_.end_command()) {
    const std::optional<AgentEvent> event = co_await inbox_.next(kNoDeadline);
    if (!event) continue;
    WorkerGroup& group = workers_.group();
    const Worker* const ended = group.note(*event);
    // On a fenced node the guard has killed the workers, so their ends are not reported.
    if (fence_cause() != FenceCause::none) {
      zero_->note_fenced();
      continue;
    }
    if (ended != nullptr)
      zero_->send_event(WorkerEnded{workers_.facts().round, first_report(*ended)});
    const auto* const signal = std::get_if<SignalReceived>(&*event);
    if (signal == nullptr || signal->stops) continue;
    const std::size_t sent = group.forward(signal->signal);
    console_.debug(signal_name(signal->signal) + ": passed on to " + count_workers(sent) +
                   " that handle it");
  }
}

/// Checks this agent, its guard and node 0 periodically. Heartbeats show that node 0 lives, and our
/// replies show it that we do. On node 0 itself each check is the coordinator's tick.
asio::awaitable<void> Agent::check_periodically() {
  const Clock::duration pause = sample_pause(spec_.hang_timeout);
  while (!is_over_) {
    check_timer_.expires_after(pause);
    co_await check_timer_.async_wait(kResult);
    if (is_over_) break;
    if (fence_cause() != FenceCause::none) {
      zero_->note_fenced();
      continue;
    }
    awake_at_ = boot_time();
    if (guard_.replace_dead()) {
      console_.warning("the guard was killed; another one, pid " + std::to_string(guard_.pid()) +
                       ", has taken its place.");
    }
    find_daemons();
    workers_.group().look_for_deaths();
    zero_->tick();
  }
}

/// Reports daemons of workers to the guard. A daemon may have its own session, and may have dropped
/// our id from its environment. Only this process, as subreaper, can prove that it is ours.
void Agent::find_daemons() {
  constexpr int kShareOfTime = 200;  // a scan takes 1/200 of the time at most
  if (commands_.state() == NodeCommands::State::waiting || Clock::now() < next_daemon_look_) return;
  const std::clock_t begin = std::clock();
  std::vector<pid_t> except = workers_.earlier_children();
  const RankTemplate* const source = workers_.rank_template();
  if (source != nullptr && source->child() != 0) except.push_back(source->child());
  guard_.set_daemons(sessions_below(except, source != nullptr ? source->parent_of_copies() : 0));
  const std::chrono::duration<double> cost(static_cast<double>(std::clock() - begin) /
                                           CLOCKS_PER_SEC);
  next_daemon_look_ =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(kShareOfTime * cost);
}

/// Called from the loop at any time. Records the command; run_rounds() acts on it later. False: no
/// real node 0 would send this command.
bool Agent::note_command(const NodeCommand& command) {
  if (const auto* const heartbeat = std::get_if<Heartbeat>(&command))
    reply_to_heartbeat(*heartbeat);
  const NodeCommands::Meaning meaning = commands_.note(command);
  if (meaning == NodeCommands::Meaning::announce) {
    workers_.group().set_stop_reason(StopReason::preempt);
    console_.info(std::get<AnnounceStop>(command).line);
  }
  // KillCommanded reaches the code that is ending the workers. CommandReceived wakes the code that
  // waits for any command.
  if (meaning == NodeCommands::Meaning::terminal) workers_.terminal().note(command);
  if (meaning == NodeCommands::Meaning::kill) inbox_.push(KillCommanded());
  inbox_.push(CommandReceived());
  return meaning != NodeCommands::Meaning::nonsense;
}

void Agent::reply_to_heartbeat(const Heartbeat& heartbeat) {
  guard_.renew_lease();
  const bool closely = spec_.hang_timeout.has_value();
  zero_->reply(make_heartbeat_reply(heartbeat, workers_.facts().round, workers_.group(), closely));
}

// --- Stopped for too long.

FenceCause Agent::fence_cause() const {
  FenceFacts facts;
  facts.has_other_nodes = spec_.max_nodes > 1;
  facts.is_in_round = commands_.state() != NodeCommands::State::waiting;
  facts.is_lease_over = guard_.is_lease_over();
  facts.since_last_check = boot_time() - awake_at_;
  return find_fence_cause(facts);
}

std::optional<std::string> Agent::why_slept() const {
  if (fence_cause() != FenceCause::we_slept) return std::nullopt;
  return describe_sleep(boot_time() - awake_at_);
}

// --- From outside.

/// Answers `ddp-launch status|stop|logs`.
std::string Agent::answer(const std::string& request) {
  WorkerGroup& group = workers_.group();
  const int world_size = commands_.world_size();
  if (request == "status") {
    return describe_status(spec_, workers_.facts(), world_size, group, zero_->slowest_rank());
  }
  if (request == "logs") return describe_logs(spec_, workers_.facts(), world_size, group);
  if (request != "stop") return "unknown request";
  request_stop(SIGTERM);  // whatever signals the user has listed
  return "stopping " + count_workers(group.alive()) + " of pid " + std::to_string(::getpid());
}

/// Takes a snapshot of the job for node 0's web page, and tells the coordinator whether anybody has
/// the page open.
JobView Agent::job_snapshot(Coordinator& coordinator) {
  coordinator.note_viewer(web_ && web_->has_viewer());
  JobView job = coordinator.job_snapshot();
  add_own_node(job, workers_.facts(), workers_.group());
  return job;
}

/// Called from the loop at any time, even while no code waits for a signal.
void Agent::note_signal(int signal) {
  const bool saves = spec_.takes_job_file || workers_.group().saves_on_stop();
  switch (meaning_of(signal, spec_.listed_signals, saves)) {
    case SignalMeaning::child_changed:
      return inbox_.push(SigchldReceived());
    case SignalMeaning::ignored:
      return console_.warning("SIGTSTP is ignored: the other nodes would take this one for lost.");
    case SignalMeaning::stops:
      return request_stop(signal);
    case SignalMeaning::passed_on:
      return inbox_.push(SignalReceived{signal, false, Clock::now()});
  }
}

/// The user asks to stop the job. Node 0 decides what follows.
void Agent::request_stop(int signal) {
  const Clock::time_point now = Clock::now();
  inbox_.push(SignalReceived{signal, true, now});
  if (commands_.note_stop_request(signal, now)) console_.warning(answer_stop_request(signal));
  zero_->send_event(StopRequested{signal});
}

}  // namespace ddp::launcher
