#include "launcher/plan/round/round.h"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <utility>

#include "common/exit_code.h"
#include "common/text/units.h"
#include "launcher/plan/command_line/split_arguments.h"
#include "launcher/plan/exit_status.h"
#include "launcher/plan/hang/stack_sources.h"
#include "launcher/plan/rank_name.h"
#include "launcher/plan/round/end_round_line.h"
#include "launcher/plan/round/node_table.h"
#include "launcher/plan/round/restart_policy.h"
#include "launcher/plan/round/survivor_wait.h"

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;

// A worker that gives up waiting in the store ends at most this long after it was last seen
// waiting: one sample interval plus the time to print a traceback.
constexpr std::chrono::seconds kGivingUp(5);
// A process that ends closes its connections at most this long before it is gone: its interpreter
// and the driver of its GPUs take time to clean up.
constexpr std::chrono::seconds kTakesToEnd(2);
constexpr std::chrono::seconds kLongWait(2);  // a shorter wait is not a sign that a rank is missing

/// When the first worker failed or was ended by us, since the round's begin.
std::optional<nanoseconds> first_worker_failure(const std::vector<Ending>& endings) {
  std::optional<nanoseconds> first;
  for (const Ending& ending : endings) {
    if (!has_failed(ending) && !was_ended_by_us(ending)) continue;
    first = std::min(first.value_or(ending.at), ending.at);
  }
  return first;
}

bool has_done_well(const WorkerReport& report) {
  return report.ending.status.is_success() && !has_failed(report.ending);
}

}  // namespace

Round::Config Round::make_config(const JobSpec& spec) {
  Config config;
  config.grace = spec.grace;
  config.watch.hang_timeout = spec.hang_timeout;
  config.watch.uninterruptible_timeout = spec.uninterruptible_timeout;
  config.keeps_survivors = spec.keeps_survivors;
  config.lost_nodes_are_free = spec.lost_nodes_are_free;
  config.is_ddp_worker = is_ddp_worker(spec.entry);
  return config;
}

Round::Round(const Config& config, std::vector<Node> nodes, Time begin)
    : config_(config), begin_(begin), watchdog_(config.watch) {
  for (Node& node : nodes) {
    config_.looks_for_hangs = config_.looks_for_hangs && !node.has_debugger;
    NodeState state;
    state.first_worker = workers_.size();
    for (std::size_t i = 0; i < node.workers; ++i) {
      WorkerState worker;
      worker.rank = static_cast<int>(workers_.size());
      worker.address = node.address;
      workers_.push_back(std::move(worker));
    }
    state.node = std::move(node);
    nodes_.push_back(std::move(state));
  }
}

// --- Events.

void Round::note_store_joins(const std::vector<int>& ranks) {
  for (const int rank : ranks)
    workers_[static_cast<std::size_t>(rank)].joined_store = true;
}

void Round::note_group_started(int node_rank, const GroupStarted& started) {
  NodeState* const node = find(node_rank, started.round);
  if (node == nullptr) return;
  node->has_started = true;
  for (std::size_t i = 0; i < std::min(started.pids.size(), node->node.workers); ++i)
    workers_[node->first_worker + i].pid = static_cast<pid_t>(started.pids[i]);
  if (is_released_ || !all_nodes(&NodeState::has_started)) return;
  // Every worker of every node runs. Before that the store answers none, so that no worker trains
  // in a round that cannot begin.
  is_released_ = true;
  actions_.emplace_back(ReleaseStore());
}

void Round::note_worker_ended(int node_rank, const WorkerEnded& ended, Time now) {
  const NodeState* const node = find(node_rank, ended.round);
  const Ending& ending = ended.worker.ending;
  if (node == nullptr || !runs_on(ending.rank, *node)) return;
  // Count each worker once: a node could repeat the event and so end a round that has workers left.
  WorkerState& worker = workers_[static_cast<std::size_t>(ending.rank)];
  if (worker.ended) return;
  worker.ended = true;
  ++ended_;
  note_report(node_rank, ended.worker);
  if (state_ != State::running) return;
  const std::string who = name_worker(ending.rank, ended.worker.pid);
  if (has_failed(ending)) {
    end_for_worker_failure(ending, who, now);
  } else if (ended_ == workers_.size()) {
    begin_ending(EndRound(), now);
  } else if (stopped_after_checkpoint(ending) && !follow_deadline_) {
    // All ranks agree to stop before any does, so the others will follow.
    follow_deadline_ = now + config_.grace;
    AnnounceStop announce;
    announce.round = config_.number;
    announce.line = who + " was asked to stop and has left after a checkpoint; waiting " +
                    format_duration(config_.grace) + " for the others.";
    command_nodes(announce);
  }
}

void Round::note_agent_failed(int node_rank, const AgentFailed& failed, Time now) {
  const NodeState* const node = find(node_rank, failed.round);
  if (node == nullptr || state_ != State::running) return;
  const bool is_own = node->node.address.empty();
  end_for_launcher_failure(
      {failed.code, is_own ? failed.text : name(node_rank) + ": " + failed.text}, now);
}

void Round::note_own_node_slept(const std::string& why, Time now) {
  if (state_ == State::running) end_for_launcher_failure({exit_code::kNodeLost, why}, now);
}

void Round::end_for_launcher_failure(LauncherFailed failure, Time now) {
  EndRound command;
  if (!is_released_) command.signal = SIGKILL;  // no worker has met the others yet
  command.reason = EndReason::launcher_failed;
  command.what = failure.text;
  facts_.launcher_failure = std::move(failure);
  begin_ending(command, now);
}

void Round::note_group_ended(int node_rank, const GroupEnded& ended, Time) {
  NodeState* const node = find(node_rank, ended.round);
  if (node == nullptr || node->has_reported) return;
  node->has_reported = true;
  node->end = ended;
  if (!ended.gpu_error.empty()) actions_.emplace_back(DeprioritizeNode{node_rank, ended.gpu_error});
  for (WorkerReport& report : node->end.workers) {
    if (runs_on(report.ending.rank, *node)) note_report(node_rank, std::move(report));
  }
  node->end.workers.clear();  // moved to `reports_`; free the memory
  finish_if_all_reported();
}

void Round::note_group_gone(int node_rank) {
  nodes_[static_cast<std::size_t>(node_rank)].are_workers_gone = true;
}

void Round::note_node_lost(int node_rank, const std::string& how, Time heard, Time now) {
  NodeState& node = nodes_[static_cast<std::size_t>(node_rank)];
  if (node.is_lost) return;
  node.is_lost = true;
  const NodeLost lost{node_rank, node.node.host, how, {}};
  // What its workers did is known. Its leftover processes are gone with it.
  if (node.has_reported && state_ != State::running) {
    node.end = GroupEnded();
    later_loss_ = lost;
    return;
  }
  // Of several lost nodes keep the one that fell silent first, in whatever order they were noticed.
  if (!facts_.lost_node || heard - begin_ < facts_.last_heard) {
    facts_.lost_node = lost;
    facts_.last_heard = heard - begin_;
  }
  // What its workers did is not known. Do not wait for them.
  for (std::size_t i = 0; i < node.node.workers; ++i)
    workers_[node.first_worker + i].ended = true;
  if (state_ != State::running) {
    finish_if_all_reported();
    return;
  }
  EndRound command;
  command.keeps_survivors =
      config_.keeps_survivors && (config_.has_restarts || config_.lost_nodes_are_free);
  command.reason = EndReason::node_lost;
  command.what = name(node_rank) + " is lost: " + how;
  begin_ending(command, now);
}

void Round::note_stop_request(int id, const std::string& where, int signal, Time now) {
  if (state_ == State::running) {
    facts_.requested_signal = signal;
    EndRound command;
    // SIGUSR1 only announces the SIGTERM that a scheduler sends later, so workers get SIGTERM now.
    if (signal != SIGUSR1) command.signal = signal;
    command.reason = EndReason::user;
    command.what = signal_name(signal) + where;
    begin_ending(command, now);
  }
  // Requests count per node, as a scheduler sends the same signal to every node.
  if (!StopRequests::counts(signal) || requests_[id].note(now) < 2 || is_killing_) return;
  is_killing_ = true;
  EndRound kill;
  kill.round = config_.number;
  kill.reason = EndReason::user;
  kill.what = signal_name(signal) + where;
  kill.signal = SIGKILL;
  command_nodes(kill);
}

void Round::note_samples(std::vector<WorkerSample> samples, Time now) {
  if (state_ != State::running) return;
  assert(samples.size() == workers_.size());
  const nanoseconds at = now - begin_;
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    WorkerSample& sample = samples[rank];
    sample.joined_store = workers_[rank].joined_store;
    const bool waits = sample.waits_since && at - *sample.waits_since >= kLongWait;
    if (waits) workers_[rank].waited_at = at;
    std::optional<nanoseconds>& left = workers_[rank].left_store_at;
    if (!sample.joined_store || sample.is_in_store)
      left.reset();
    else if (!left)
      left = at;
  }
  // A worker that is not started looks idle, as while --preload imports. Those that are started
  // wait, as the store answers none yet.
  if (!config_.looks_for_hangs || !is_released_) return;
  for (const Finding& finding : watchdog_.note_samples(at, samples)) {
    const pid_t pid = workers_[static_cast<std::size_t>(finding.rank)].pid;
    const std::string text = name_worker(finding.rank, pid) + " " + finding.text;
    if (!finding.ends_round) {
      actions_.emplace_back(Warn{text + ". Others may wait for it."});
      continue;
    }
    hang_ = finding;
    EndRound command;
    command.reason = EndReason::hang;
    command.what = text;
    begin_ending(command, now);
  }
}

void Round::note_time(Time now) {
  if (state_ == State::running && follow_deadline_ && now >= *follow_deadline_) {
    const std::size_t alive = workers_.size() - ended_;
    EndRound command;
    command.reason = EndReason::not_followed;
    command.what =
        count_workers(alive) + " did not follow within " + format_duration(config_.grace);
    begin_ending(command, now);
  }
  if (state_ != State::ending || !group_end_deadline_ || now < *group_end_deadline_) return;
  group_end_deadline_.reset();
  const bool has_waited = std::exchange(waits_for_lines_, true);
  // Our own node always reports; another one may be stuck in a way that its heartbeats do not show.
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodeState& node = nodes_[i];
    if (node.is_lost || node.has_reported || node.node.address.empty()) continue;
    const int node_rank = static_cast<int>(i);
    if (!node.are_workers_gone || has_waited) {
      actions_.emplace_back(DeclareNodeLost{node_rank, "did not end its workers in time"});
      continue;
    }
    // Its workers are gone, and how they ended decides the round, so give the node more time to
    // report.
    group_end_deadline_ = now + kLastLinesWait;
    actions_.emplace_back(Warn{name(node_rank) +
                               " has ended its workers, and is slow to write their " +
                               "last lines; waiting for them."});
  }
}

std::vector<Round::Action> Round::take_actions() {
  return std::exchange(actions_, {});
}

std::optional<Round::Time> Round::deadline() const {
  return state_ == State::running ? follow_deadline_ : group_end_deadline_;
}

// --- The end.

void Round::end_for_worker_failure(const Ending& ending, const std::string& who, Time now) {
  const int code = ending.status.exit_code();
  // A rank that times out has waited a while for its peers, so a rank that is frozen now was frozen
  // then.
  if (code == exit_code::kTimeout) frozen_ = watchdog_.frozen(nanoseconds(0));
  EndRound command;
  command.keeps_survivors =
      config_.keeps_survivors && config_.has_restarts && !RestartPolicy::is_final(code);
  command.reason = EndReason::worker_failed;
  // A rank that lost a peer is not the cause.
  command.what = code == exit_code::kLostPeer ? who + " has lost another rank"
                                              : who + " has failed: " + to_text(ending.status);
  begin_ending(command, now);
}

/// Commands the nodes to end their workers, and waits for their reports from now on.
void Round::begin_ending(EndRound command, Time now) {
  assert(state_ == State::running);
  state_ = State::ending;
  // Read this before any signal is sent: SIGCONT goes with the first, and then no worker is frozen.
  if (frozen_.empty()) frozen_ = watchdog_.frozen();
  command.round = config_.number;
  if (command.signal == 0) command.signal = SIGTERM;
  command.grace = config_.grace;
  nanoseconds wait = command.grace + kGroupEndWait;
  if (command.reason == EndReason::hang) wait += kSpyWait + kPrintWait;
  if (command.keeps_survivors) wait += SurvivorWait::kLongest;
  group_end_deadline_ = now + wait;
  command_nodes(command);
  finish_if_all_reported();
}

void Round::finish_if_all_reported() {
  if (state_ == State::ending && all_nodes(&NodeState::has_reported)) state_ = State::over;
}

/// Keeps a report. The full report replaces the one sent at once.
void Round::note_report(int node_rank, WorkerReport report) {
  report.node_rank = node_rank;
  report.host = nodes_[static_cast<std::size_t>(node_rank)].node.host;
  const int rank = report.ending.rank;
  reports_.insert_or_assign(rank, std::move(report));
}

/// Takes the reports, with what the store and the watchdog know of each worker.
std::vector<WorkerReport> Round::take_reports() {
  std::vector<WorkerReport> reports;
  for (auto& [rank, report] : reports_) {
    const WorkerState& state = workers_[static_cast<std::size_t>(rank)];
    report.ending.joined_store = state.joined_store;
    report.ending.waited_in_store =
        state.waited_at && report.ending.at - *state.waited_at < kGivingUp;
    report.ending.had_left_store =
        state.left_store_at && report.ending.at - *state.left_store_at >= kTakesToEnd;
    report.ending.was_frozen = std::find(frozen_.begin(), frozen_.end(), rank) != frozen_.end();
    reports.push_back(std::move(report));
  }
  return reports;
}

RoundResult Round::conclude(Time now, bool can_go_on) {
  assert(is_over());
  RoundResult result;
  result.workers = take_reports();
  result.lived = now - begin_;
  result.second_stop_request = is_killing_;
  result.had_debugger = !config_.looks_for_hangs;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const GroupEnded& end = nodes_[i].end;
    result.survivors += end.survivors;
    result.survivor_step = std::max(result.survivor_step, end.survivor_step);
    const std::string where =
        nodes_[i].node.address.empty() ? "" : name(static_cast<int>(i)) + ": ";
    for (const std::string& process : end.unkilled)
      result.unkilled.push_back(where + process);
  }
  result.checkpoint_step = result.survivor_step;  // counts like a checkpoint
  std::vector<Ending> endings;
  for (const WorkerReport& report : result.workers) {
    endings.push_back(report.ending);
    // A program that writes or reports no checkpoints is not stuck for that reason.
    const bool tells_checkpoints = config_.is_ddp_worker || report.checkpoint_step >= 0;
    result.tells_checkpoints =
        result.tells_checkpoints || (report.ending.opened_page && tells_checkpoints);
    result.checkpoint_step = std::max(result.checkpoint_step, report.checkpoint_step);
  }
  EndFacts facts = facts_;
  if (hang_) {
    const Finding hang = blame_outlier(*hang_, stacks_of(result.workers));
    facts.hung_rank = hang.rank;
    result.hang = hang.text;
    result.is_final = hang.is_final;
  }
  // Reports that a lost node sent in time count: a failure among them may be the root cause.
  result.outcome = judge(endings, facts);
  result.exit_code = exit_code_of(result.outcome, endings);
  if (const auto first = first_worker_failure(endings))
    result.teardown_time = result.lived - *first;
  // A job whose workers have all finished is not repeated, even if a node was lost.
  result.all_finished = result.workers.size() == workers_.size() &&
                        std::all_of(result.workers.begin(), result.workers.end(), has_done_well);
  result.can_go_on = can_go_on;
  if (std::holds_alternative<LauncherFailed>(result.outcome)) result.workers.clear();
  return result;
}

// --- Names.

Round::NodeState* Round::find(int node_rank, int round) {
  NodeState& node = nodes_[static_cast<std::size_t>(node_rank)];
  return node.is_lost || round != config_.number ? nullptr : &node;
}

bool Round::runs_on(int rank, int node_rank) const {
  const auto index = static_cast<std::size_t>(node_rank);
  return node_rank >= 0 && index < nodes_.size() && runs_on(rank, nodes_[index]);
}

bool Round::runs_on(int rank, const NodeState& node) const {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index >= node.first_worker && index < node.first_worker + node.node.workers;
}

std::string Round::name(int node_rank) const {
  return name_node(node_rank, nodes_[static_cast<std::size_t>(node_rank)].node.host);
}

std::string Round::name_worker(int rank, std::int64_t pid) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool is_elsewhere = !nodes_[i].node.address.empty() && runs_on(rank, nodes_[i]);
    if (is_elsewhere) return name_rank(rank, pid, static_cast<int>(i), nodes_[i].node.host);
  }
  return name_rank(rank, pid);
}

bool Round::all_nodes(bool NodeState::*reached) const {
  return std::all_of(nodes_.begin(), nodes_.end(), [reached](const NodeState& node) {
    return node.is_lost || node.*reached;
  });
}

}  // namespace ddp::launcher
