#include "launcher/run/agent.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/units.h"
#include "launcher/os/descendants.h"
#include "launcher/os/interfaces.h"
#include "launcher/os/resources.h"
#include "launcher/plan/live_line.h"
#include "launcher/plan/message_codec.h"
#include "launcher/plan/node_table.h"
#include "launcher/plan/placement.h"
#include "launcher/run/gpu_memory_wait.h"
#include "launcher/run/log_dir.h"
#include "launcher/run/progress_probe.h"
#include "launcher/run/report.h"
#include "launcher/run/round_end.h"
#include "launcher/run/stack_collector.h"
#include "launcher/run/status.h"

namespace ddp::launcher {
namespace {

constexpr int kRunIdBytes = 16;
// From the loss of node 0 to SIGKILL, at most: by then nobody can tell us that a new round begins.
constexpr std::chrono::seconds kLostGrace(5);
constexpr Clock::duration kLookPause = std::chrono::seconds(1);  // between two looks at the workers
constexpr int kLooksPerTimeout = 10;                             // when that is shorter

RoundFacts first_facts(const Rendezvous& rendezvous, const OwnedDir* log_dir) {
  RoundFacts facts;
  facts.run_id = rendezvous.welcome.run_id;
  // Two agents of a job may share a machine, and must not end each other's workers.
  facts.agent_id = rendezvous.link ? random_hex(kRunIdBytes) : facts.run_id;
  facts.user_run_id = rendezvous.welcome.user_run_id;
  facts.job_start = Clock::now();
  if (log_dir == nullptr) return facts;
  facts.log_dir = log_dir->path();
  log::info("logs in " + facts.log_dir.string());
  return facts;
}

std::string count(std::size_t workers) {
  return std::to_string(workers) + (workers == 1 ? " worker" : " workers");
}

/// A stopped agent is a lost node to the others, so a terminal must not stop it.
std::vector<int> signals_of(const JobSpec& spec) {
  std::vector<int> signals = spec.stop_signals;
  if (spec.max_nodes > 1) signals.push_back(SIGTSTP);
  return signals;
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

/// How the job ends for this node alone.
JobEnd own_end(int code, const std::string& text) {
  JobEnd end;
  end.exit_code = code;
  end.report = clean("ddp-launch: " + text);
  end.members = "\"decided_by\":\"launcher\"";
  return end;
}

std::string progress_text(const ProgressPage& page) {
  if (!is_opened(page)) return "";
  return ", phase " + std::string(to_text(page.phase.load(std::memory_order_relaxed))) + ", step " +
         std::to_string(page.step.load(std::memory_order_relaxed));
}

}  // namespace

std::optional<RunLock> lock_run(const JobSpec& spec,
                                const Environment& environment,
                                const std::filesystem::path& place) {
  if (spec.lock_name.empty()) return {};
  std::string told;  // when the place was made
  std::vector<std::filesystem::path> others;
  for (const OwnDir& other :
       find_scratch_places(find_variable(environment, "XDG_RUNTIME_DIR"), told)) {
    if (other.path() != place) others.push_back(other.path());
  }
  return std::make_optional<RunLock>(place, others, spec.lock_name);
}

Agent::Agent(asio::io_context& io,
             const JobSpec& spec,
             const Rendezvous& rendezvous,
             const ChooseRunDir& choose_run_dir,
             const std::filesystem::path& place,
             const RunLock* lock,
             log::Level lowest)
    : io_(io),
      spec_(spec),
      link_(rendezvous.link),
      zero_host_(rendezvous.welcome.host),
      log_dir_(make_log_dir(spec, rendezvous.welcome.user_run_id)),
      facts_(first_facts(rendezvous, log_dir_.get())),
      scratch_(place, facts_.agent_id),
      guard_(facts_.agent_id, scratch_.path()),
      cgroup_(facts_.agent_id),
      lock_(lock),
      console_(
          writer_, lowest, is_colored(spec.logs, ::isatty(STDERR_FILENO) == 1, spec.environment)),
      inbox_(io),
      signals_(io_, signals_of(spec), [this](int signal) { note_signal(signal); }),
      service_(io_, spec.environment),
      control_(
          io_, scratch_.path(), [this](const std::string& request) { return answer(request); }),
      earlier_children_(children_but(guard_.pid())),
      group_(std::make_unique<WorkerGroup>(
          io_, inbox_, guard_, writer_, console_, spec_, facts_, earlier_children_)),
      heartbeat_timer_(io),
      commands_(spec.nproc, spec.grace) {
  become_subreaper();
  prepare_cgroup();
  if (link_) return;
  Coordinator::Job job;
  job.own = rendezvous.own;
  job.welcome = rendezvous.welcome;
  job.question = rendezvous.question;
  job.tell_own_node = [this](const NodeCommand& command) {
    if (!take_command(command)) throw std::logic_error("our own coordinator gives a wrong command");
  };
  job.choose_run_dir = choose_run_dir;
  coordinator_ = std::make_unique<Coordinator>(io_, console_, spec_, std::move(job));
}

JobEnd Agent::run() {
  std::optional<JobEnd> failure;
  try {
    asio::co_spawn(io_, run_rounds(), rethrow);
    io_.run();
  } catch (const std::exception& error) {
    // The system refused something: an outcome from here on.
    const auto* const ours = dynamic_cast<const Error*>(&error);
    const int code = ours != nullptr ? ours->code() : exit_code::kInternal;
    if (link_) tell(NodeFailed{facts_.round, code, error.what()});
    failure =
        coordinator_ ? coordinator_->abandon(error.what(), code) : own_end(code, error.what());
  }
  // After a failure: what had been started. The guard ends what that may have left behind.
  group_->end_now();
  JobEnd end = failure ? std::move(*failure) : *commands_.end();
  // Error files stay after a bad end: the report names them.
  if (end.exit_code != exit_code::kOk && keeps_error_files_) scratch_.keep();
  return end;
}

asio::awaitable<void> Agent::run_rounds() {
  control_.start();
  if (coordinator_) coordinator_->start();
  if (link_) listen_to_node_zero();
  asio::co_spawn(io_, keep_heartbeat(), rethrow);
  while (true) {
    co_await wait_for_command();
    if (commands_.end()) break;
    co_await run_round();
  }
  co_await end_kept();
  // The verdict is the same on every node.
  is_over_ = true;
  heartbeat_timer_.cancel();
  guard_.farewell();
  signals_.close();
  service_.close();
  control_.close();
  if (link_) link_->close();
}

/// Suspends: until a round is to begin, or the job has ended.
asio::awaitable<void> Agent::wait_for_command() {
  while (!commands_.has_next()) {
    const std::optional<Event> event = co_await inbox_.next(kNoDeadline);
    if (event) group_->note(*event);
  }
}

asio::awaitable<void> Agent::run_round() {
  const StartRound start = commands_.begin();
  if (has_kept_) co_await clear_up_after_kept();
  begin_round(start);
  std::vector<EndedWorker> ended = std::exchange(ended_, {});
  if (!ended.empty() && !has_kept_) {  // those that are kept are on CPUs
    co_await wait_for_gpu_memory(io_, inbox_, console_, *group_, commands_, std::move(ended));
  }
  start_workers(start);
  // If one worker could not start, node 0 knows, and none trains.
  co_await watch();
  commands_.begin_stop();
  if (commands_.stop()->keeps && spec_.keeps_survivors) co_await group_->settle();
  if (group_->alive() > group_->kept()) co_await stop();
  std::vector<std::string> unkilled = co_await group_->sweep();
  // No process of this round lives on this node, or it is named in `unkilled`.
  co_await group_->drain();
  for (const auto& worker : group_->workers()) {
    if (worker->ending) ended_.push_back(EndedWorker{worker->placement.rank, worker->pid});
  }
  has_kept_ = group_->kept() > 0;
  commands_.end_round();
  GroupEnded end = describe_round(*group_, spec_, facts_, baseline_);
  end.unkilled = std::move(unkilled);
  keeps_error_files_ = keeps_error_files_ || names_error_files(end);
  tell(end);
}

/// Some may have died while they waited. What the last one leaves behind counts, too.
asio::awaitable<void> Agent::clear_up_after_kept() {
  std::size_t kept = 0;
  do {
    kept = group_->kept();
    for (const std::string& leftover : co_await group_->sweep())
      console_.warning("still there from an earlier round: " + leftover);
    co_await group_->drain();
  } while (group_->kept() < kept);
  has_kept_ = kept > 0;
}

/// No round comes that they wait for.
asio::awaitable<void> Agent::end_kept() {
  if (!has_kept_) co_return;
  group_->give_up_kept();
  GroupStop command;
  command.signal = SIGKILL;
  command.reason = StopReason::teardown;
  co_await group_->stop(command);
  co_await clear_up_after_kept();
}

/// Told to the guard before it is there.
void Agent::prepare_cgroup() {
  guard_.cover(cgroup_.path());
  cgroup_.make();
  if (cgroup_.path().empty()) return;
  cgroup_.begin_round(0);
  if (!can_be_born_in(cgroup_.fd())) cgroup_.give_up();
}

void Agent::begin_round(const StartRound& start) {
  // Not before: an agent that is stopped while it waits for the others harms nobody.
  const bool is_first = world_size_ == 0;
  if (spec_.max_nodes > 1 && is_first) guard_.set_lease(NodeLinks::kLease);
  facts_.round = start.round;
  // Nobody else decides whether this node writes files, and its own command gave no directory.
  if (spec_.has_run_dir) facts_.run_dir = start.run_dir;
  if (is_first && !spec_.has_run_dir && !start.run_dir.empty()) {
    console_.warning("node 0 has a run directory, " + start.run_dir +
                     ", but this node was started without a job file or --output: it is not used.");
  }
  facts_.master_port = start.master_port;
  facts_.master_addr = link_ ? link_->peer_address() : coordinator_->own_address();
  if (spec_.max_nodes > 1) {
    facts_.interface = interface_of(link_ ? link_->own_address() : facts_.master_addr);
  }
  if (is_first) say_start();
  if (spec_.max_nodes > 1) say_place(start);
  world_size_ = std::reduce(start.workers_of_node.begin(), start.workers_of_node.end());
  if (has_kept_) return;  // the same group goes on
  group_ = std::make_unique<WorkerGroup>(
      io_, inbox_, guard_, writer_, console_, spec_, facts_, earlier_children_);
  if (start.round > 0) cgroup_.begin_round(start.round);
  group_->use_cgroup(cgroup_);
  if (lock_) group_->share_lock(lock_->fd());
}

/// Errors: SystemError in the first round; a later one has something to lose, and goes on without.
void Agent::open_run_dir() {
  try {
    run_dir_ = std::make_shared<const OwnedDir>(OwnedDir::require(facts_.run_dir));
  } catch (const SystemError& error) {
    if (facts_.round == 0) throw;
    console_.warning(std::string(error.what()) + " This node writes no files.");
  }
}

void Agent::start_workers(const StartRound& start) {
  baseline_ = take_baseline();
  try {
    // Once: whoever may rename it later leaves us in it.
    const bool has_files = !facts_.run_dir.empty() && !log_dir_ && !refuses_files(spec_.logs);
    if (has_files && !run_dir_) open_run_dir();
    group_->start(place(start.workers_of_node, start.role_of_node, start.node_rank),
                  log_dir_ ? log_dir_ : run_dir_,
                  scratch_.path());
  } catch (const Error& error) {
    // An outcome: node 0 has the others stopped, and us.
    tell(NodeFailed{start.round, error.code(), error.what()});
    return;
  }
  Started started;
  started.round = start.round;
  started.begin_ns = group_->begin().time_since_epoch().count();
  for (const auto& worker : group_->workers())
    started.pids.push_back(worker->pid);
  tell(started);
  service_.ready();
}

/// Until node 0 ends the round, or is lost.
asio::awaitable<void> Agent::watch() {
  while (!commands_.stop()) {
    const std::optional<Event> event = co_await inbox_.next(kNoDeadline);
    if (!event) continue;
    group_->note(*event);
    if (was_fenced()) continue;
    if (const auto* const exit = std::get_if<WorkerExited>(&*event)) tell_exit(*exit);
    const auto* const signal = std::get_if<SignalCame>(&*event);
    if (signal != nullptr && !signal->stops) forward(signal->signal);
  }
  if (group_->alive() > 0) say_why_stopping();
}

asio::awaitable<void> Agent::stop() {
  if (commands_.stop()->wants_stacks) {
    StackCollector collector(io_, inbox_, console_, *group_, spec_);
    co_await collector.collect();
  }
  GroupStop command;
  command.signal = commands_.stop()->signal;
  command.reason = commands_.stop()->reason;
  command.grace = commands_.stop()->grace;
  // A scheduler sends SIGTERM some time after it has announced it: that is the first press.
  if (press_ && press_->signal != SIGUSR1 && command.reason == StopReason::preempt) {
    command.first_press = press_->at;
  }
  co_await group_->stop(command);
}

/// Node 0 is heard by its heartbeats, and hears us by our answers. On node 0 itself our own
/// heartbeat is also the coordinator's clock.
asio::awaitable<void> Agent::keep_heartbeat() {
  const Clock::duration pause = look_pause(spec_);
  while (!is_over_) {
    heartbeat_timer_.expires_after(pause);
    co_await heartbeat_timer_.async_wait(kResult);
    if (is_over_) break;
    if (was_fenced()) continue;
    last_heartbeat_ = Clock::now();
    awake_at_ = boot_time();
    if (guard_.replace_dead()) {
      console_.warning("the guard was killed; another one, pid " + std::to_string(guard_.pid()) +
                       ", has taken its place.");
    }
    if (coordinator_) {
      guard_.renew_lease();
      reply_to_heartbeat(Heartbeat());
    } else if (Clock::now() - link_->last_heard() > NodeLinks::kLease) {
      lose_node_zero(silence_of_node_zero(), SIGKILL);
    } else if (commands_.is_unheard(last_heartbeat_)) {
      leave_unheard();
    }
  }
}

void Agent::listen_to_node_zero() {
  link_->start(
      [this](std::string_view frame) {
        const std::optional<NodeCommand> command = decode_command(frame);
        return command && take_command(*command);
      },
      [this](const std::string& how) {
        // Who has slept was given up, and hears of that first when it is awake.
        if (has_slept() && was_fenced()) return;
        lose_node_zero("its agent is gone (" + how + ")", SIGTERM);
      });
}

/// From the loop, at any time: what it means is noted, and the story comes to it. False: whoever
/// says that is no node 0.
bool Agent::take_command(const NodeCommand& command) {
  if (const auto* const heartbeat = std::get_if<Heartbeat>(&command)) {
    guard_.renew_lease();
    if (!spec_.shares_console) console_.live(heartbeat->line);
    reply_to_heartbeat(*heartbeat);
  }
  // When it is this agent that was stopped, the others are not lost to it: it is lost to them.
  const bool is_stop = std::holds_alternative<StopRound>(command);
  if (coordinator_ && is_stop && !commands_.stop()) was_fenced();
  const NodeCommands::Meaning meaning = commands_.take(command);
  if (meaning == NodeCommands::Meaning::announce) {
    const auto& announce = std::get<AnnounceStop>(command);
    group_->tell(announce.reason);
    console_.info(announce.line);
  }
  if (meaning == NodeCommands::Meaning::kill) inbox_.push(KillCame());
  inbox_.push(CommandCame());
  return meaning != NodeCommands::Meaning::nonsense;
}

void Agent::tell(const NodeEvent& event) {
  if (coordinator_) {
    coordinator_->take(event);
  } else if (link_->is_open()) {
    link_->send(encode(event));
  }
}

void Agent::tell_exit(const WorkerExited& exit) {
  const Worker& worker = *group_->workers()[exit.index];
  tell(Exited{facts_.round, worker.pid, worker.placement.local_rank, *worker.ending});
}

void Agent::reply_to_heartbeat(const Heartbeat& heartbeat) {
  HeartbeatReply event;
  event.round = facts_.round;
  event.samples = probe_progress(*group_, spec_.hang_timeout.has_value());
  event.sent_ns = Clock::now().time_since_epoch().count();
  event.echo_ns = heartbeat.sent_ns;
  if (coordinator_) {
    tell(event);
  } else {
    link_->send_heartbeat(encode(NodeEvent(event)));
  }
}

std::string Agent::silence_of_node_zero() {
  return "silent for " + format_seconds(Clock::now() - link_->last_heard()) + link_->hint();
}

/// Nobody tells us any more what the job does, and nobody hears us: this node ends its part.
void Agent::lose_node_zero(const std::string& how, int signal) {
  if (commands_.end()) return;
  Verdict verdict;
  verdict.outcome = NodeLost{0, zero_host_ + ", " + link_->peer_address(), how, {}};
  verdict.exit_code = exit_code::kNodeLost;
  verdict.world_size = world_size_;
  const std::optional<StopRound>& before = commands_.stop();
  if (before && !before->line.empty()) {  // what had happened before is not forgotten
    verdict.earlier_rounds.push_back("the round was being ended, as " +
                                     before->line.substr(0, before->line.rfind("; stopping")));
    console_.error(name_node(0, zero_host_) + " is lost: " + how);
  }
  StopRound stop;
  stop.signal = signal;
  stop.grace = std::min<std::chrono::milliseconds>(spec_.grace, kLostGrace);
  stop.line = name_node(0, zero_host_) + " is lost: " + how + "; stopping";
  end_alone(stop, describe_end(verdict, spec_, host_name(), 0));
}

/// The user wants to go, and node 0 is heard but commands nothing.
void Agent::leave_unheard() {
  const std::string text = signal_name(press_->signal) + " came twice, and " +
                           name_node(0, zero_host_) + " does not end the job";
  StopRound stop;
  stop.signal = SIGKILL;
  stop.line = text + "; stopping";
  JobEnd end = own_end(exit_code::of_signal(press_->signal), text + ": this node leaves it.");
  end.state = RunState::stopped;
  end_alone(stop, end);
}

/// As if node 0 had given these commands; it is not heard any more.
void Agent::end_alone(StopRound stop, const JobEnd& end) {
  link_->close();  // the reason for this may be of its own making
  stop.round = commands_.round();
  take_command(stop);
  take_command(end);
}

/// Our loop turns every second, so it was stopped, or the machine slept.
bool Agent::has_slept() const {
  return boot_time() - awake_at_ >= NodeLinks::kLease / 2;
}

/// Whether this agent was stopped, or the machine slept, for so long that the other nodes have
/// given it up and its guard has killed its workers: then what is seen now is no news of theirs.
bool Agent::was_fenced() {
  const bool in_round = commands_.state() != NodeCommands::State::waiting;
  if (spec_.max_nodes == 1 || !in_round || !guard_.is_lease_over()) return false;
  if (link_ && !has_slept()) {  // it is node 0 that says nothing
    lose_node_zero(silence_of_node_zero(), SIGKILL);
    return true;
  }
  const std::string text = "this agent did not run for " + format_seconds(boot_time() - awake_at_) +
                           ": the other nodes have given it up, and its guard has killed its "
                           "workers (fenced)";
  if (coordinator_) {
    if (!commands_.stop()) tell(NodeFailed{facts_.round, exit_code::kNodeLost, text});
    return true;
  }
  if (commands_.end()) return true;
  StopRound stop;
  stop.signal = SIGKILL;
  stop.line = text + "; stopping";
  end_alone(stop, own_end(exit_code::kNodeLost, text + "."));
  return true;
}

/// Of `ddp-launch status|stop|logs`.
std::string Agent::answer(const std::string& request) {
  if (request == "status") return describe_status(spec_, facts_, world_size_, *group_);
  if (request == "logs") return describe_logs(spec_, facts_, world_size_, *group_);
  if (request != "stop") return "unknown request";
  press(SignalCame{SIGTERM, true, Clock::now()});  // whatever signals the user has listed
  return "stopping " + count(group_->alive()) + " of pid " + std::to_string(::getpid());
}

/// From outside, at any time: also while no story waits for it.
void Agent::note_signal(int signal) {
  if (signal == SIGCHLD) {
    inbox_.push(ChildChanged());
    return;
  }
  if (signal == SIGTSTP) {
    console_.warning("SIGTSTP is ignored: the other nodes would take this one for lost.");
    return;
  }
  const auto& listed = spec_.stop_signals;
  // Schedulers announce the end of a node by SIGUSR1: whoever saves checkpoints is to save one.
  const bool announces = signal == SIGUSR1 && (spec_.own_worker || group_->saves_on_stop());
  const bool stops = announces || std::find(listed.begin(), listed.end(), signal) != listed.end();
  const SignalCame came{signal, stops, Clock::now()};
  if (stops) {
    press(came);
  } else {
    inbox_.push(came);
  }
}

/// The user wants the job to end. What it means is for node 0 to say.
void Agent::press(const SignalCame& came) {
  press_ = came;
  inbox_.push(came);
  if (came.signal == SIGINT || came.signal == SIGTERM) commands_.press(came.at);
  tell(StopAsked{came.signal});
}

/// A signal that is for the workers alone.
void Agent::forward(int signal) {
  const std::size_t sent = group_->forward(signal);
  console_.debug(signal_name(signal) + ": passed on to " + count(sent) + " that handle it");
}

void Agent::say_start() {
  console_.debug("guard: pid " + std::to_string(guard_.pid()) + ", run id " + facts_.run_id);
  console_.debug("endpoint: " + facts_.master_addr + ":" + std::to_string(facts_.master_port));
  console_.debug(
      "supervision: pidfd, one session per worker, death signal, subreaper, guard by session and "
      "run id, " +
      (cgroup_.path().empty() ? "no cgroup: none is delegated to us"
                              : "cgroup " + cgroup_.path().string()));
}

/// What this node runs: no node of a job looks dead.
void Agent::say_place(const StartRound& start) {
  const std::vector<Placement> placements =
      place(start.workers_of_node, start.role_of_node, start.node_rank);
  NodeView view;
  view.node_rank = start.node_rank;
  view.host = host_name();
  view.first_rank = placements.front().rank;
  for (const Placement& placement : placements)
    view.devices.push_back(device_of(spec_, placement.local_rank));
  view.logs = round_dir(facts_).string();
  const std::string round = start.round == 0 ? "" : "round " + std::to_string(start.round) + ": ";
  console_.info(round + describe_node(view) + ", store at " + facts_.master_addr + ":" +
                std::to_string(facts_.master_port) +
                (facts_.interface.empty() ? "" : " by " + facts_.interface));
}

void Agent::say_why_stopping() {
  const StopRound& why = *commands_.stop();
  const std::string text = why.line + " " + count(group_->alive());
  if (why.reason == StopReason::preempt) {
    console_.warning(text + ", they have " + format_duration(why.grace) +
                     ". A second SIGINT or SIGTERM kills them now.");
  } else {
    console_.error(text + ".");
  }
  if (!why.wants_stacks) return;
  for (const auto& worker : group_->workers()) {
    if (worker->ending) continue;
    console_.info("rank " + std::to_string(worker->placement.rank) + ": " +
                  describe_process(worker->pid) + progress_text(*worker->page));
  }
}

}  // namespace ddp::launcher
