#include "launcher/run/coordinator.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/units.h"
#include "launcher/plan/exit_status.h"
#include "launcher/plan/placement.h"
#include "launcher/run/report.h"
#include "launcher/run/stack_collector.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;

// In the records of the nodes: node 0's has all but those of the largest jobs, the others' must
// reach all of them in a moment.
constexpr std::size_t kOwnWorkers = 16384;
constexpr std::size_t kTheirWorkers = 200;
constexpr std::chrono::seconds kAskPause(1);
// From the end of the grace to the last report of a node that can still report.
constexpr Clock::duration kReportWait =
    WorkerGroup::kKillWait + WorkerGroup::kDrainWait + std::chrono::seconds(5);
// From the last look at a worker that waits in the store to its end, when it gives up: a look, and
// a traceback's time.
constexpr std::chrono::seconds kGivingUp(5);
constexpr std::chrono::seconds kLongWait(2);  // longer than ranks that all come wait for each other

/// When the first worker ended that had not ended well, since the round's begin.
std::optional<nanoseconds> first_failure(const std::vector<Ending>& endings) {
  std::optional<nanoseconds> first;
  for (const Ending& ending : endings) {
    if (!has_failed(ending) && !was_stopped(ending)) continue;
    first = std::min(first.value_or(ending.at), ending.at);
  }
  return first;
}

}  // namespace

Coordinator::Coordinator(asio::io_context& io, Console& console, const JobSpec& spec, Job job)
    : io_(io),
      console_(console),
      spec_(spec),
      job_(std::move(job)),
      inbox_(io),
      store_(io, console, spec),
      crew_(io,
            inbox_,
            console,
            Crew::Rules{job_.own, job_.welcome, spec.token, spec.replace_timeout.has_value()},
            job_.tell_own_node),
      ask_timer_(io) {
  if (has_other_nodes()) crew_.open(*store_.endpoint());
}

void Coordinator::start() {
  store_.start();
  asio::co_spawn(io_, story(), rethrow);
  if (job_.question) asio::co_spawn(io_, ask_again(), rethrow);
}

/// Until the first round: whoever listens at the master address may have come after us, and be the
/// right one.
asio::awaitable<void> Coordinator::ask_again() {
  while (round_.number < 0 && !is_over_) {
    ask_timer_.expires_after(kAskPause);
    co_await ask_timer_.async_wait(kResult);
    if (round_.number >= 0 || is_over_) break;
    const std::optional<Answer> answer = co_await ask_once(io_, *job_.question, kAskFor);
    const auto* const refusal = answer ? std::get_if<Refusal>(&*answer) : nullptr;
    if (refusal == nullptr) continue;
    ill_node_ = *refusal;
    inbox_.push(Crew::NodeGone{-1, ""});  // nobody: it wakes the story
    break;
  }
}

void Coordinator::take(const News& news) {
  inbox_.push(Crew::NewsCame{0, news});
}

const std::string& Coordinator::own_address() const {
  return crew_.own_address().empty() ? spec_.master_addr : crew_.own_address();
}

asio::awaitable<void> Coordinator::story() {
  RestartPolicy policy(
      RestartLimits{spec_.max_restarts, spec_.died_within, spec_.lost_nodes_are_free});
  bool is_here = co_await gather(spec_.join_timeout);
  while (is_here) {
    // All nodes have joined; node ranks are fixed.
    if (!begin_round(policy.round())) break;
    // Ranks are fixed, and every node is told to start.
    co_await watch();
    co_await stop(policy);
    // No process of this round lives on any node that can be heard, or it is named, or waits for
    // the next round.
    const RoundResult round = conclude();
    // The root cause is known and does not change.
    const RestartDecision decision = policy.decide(round);
    say_restart(round, decision, policy.left());
    if (!decision.restart) break;
    co_await pause(decision);
    is_here = co_await gather(spec_.replace_timeout.value_or(std::chrono::milliseconds(0)));
  }
  // The verdict is the same on every node.
  co_await end();
}

/// Waits until the nodes of the next round are here. False: they are not, or the user stops the
/// job; then the verdict says so.
asio::awaitable<bool> Coordinator::gather(std::chrono::milliseconds limit) {
  const bool is_first = round_.number < 0;
  const Deadline last = Clock::now() + limit;
  Deadline roll = Clock::now() + kRollCall;
  std::optional<Deadline> last_call;
  while (!press_ && !(is_first && ill_node_)) {
    const Clock::time_point now = Clock::now();
    if (now >= fence_) {
      const bool may_begin = !is_first && (now >= last || !awaits_another());
      if (crew_.roster().is_full() || (crew_.roster().is_enough() && may_begin)) co_return true;
      if (crew_.roster().is_enough() && !last_call) last_call = now + spec_.last_call;
      if (last_call && now >= *last_call) co_return true;
    }
    if (!crew_.roster().is_enough()) last_call.reset();
    if (!crew_.roster().is_enough() && now >= last) break;
    if (now >= roll) {
      console_.info(crew_.roster().who_is_missing());
      roll += kRollCall;
    }
    Deadline next = std::min(roll, last_call.value_or(kNoDeadline));
    if (!crew_.roster().is_enough() || awaits_another()) next = std::min(next, last);
    if (now < fence_) next = std::min(next, fence_);
    std::optional<Crew::Event> event = co_await inbox_.next(next);
    if (event) note(*event);
  }
  if (press_) {
    // It came when there was no worker that could be told.
    verdict_.outcome = Stopped{*press_};
    verdict_.exit_code = exit_code::of_signal(*press_);
  } else if (is_first && ill_node_) {
    verdict_.failure = ill_node_->text;
    verdict_.exit_code = ill_node_->code;
  } else if (is_first) {
    verdict_.failure = "the job has not begun: " + crew_.roster().who_is_missing() + "; waited " +
                       format_duration(limit) +
                       ". Start them with the same --nnodes, --master-addr and --master-port.";
    verdict_.exit_code = exit_code::kRendezvous;
  } else {
    verdict_.policy = limit.count() == 0 ? "too few nodes are left"
                                         : "no other node came within " + format_duration(limit);
    if (lost_between_) {
      verdict_.outcome = *lost_between_;
      verdict_.exit_code = exit_code::kNodeLost;
      verdict_.hang.clear();
    } else if (!verdict_.earlier_rounds.empty()) {
      verdict_.earlier_rounds.pop_back();  // it is the last one
    }
  }
  co_return false;
}

/// False: the round cannot begin, and the verdict says why.
bool Coordinator::begin_round(int number) {
  round_ = Round();
  round_.number = number;
  ask_timer_.cancel();
  lost_between_.reset();
  is_killing_ = false;
  StartRound start;
  start.round = number;
  const std::vector<Node*> nodes = crew_.seat();
  std::vector<std::string> roles;
  for (const Node* const node : nodes) {
    start.workers_of_node.push_back(static_cast<int>(node->workers));
    roles.push_back(crew_.roster().find(node->id).hello.role);
    for (std::size_t i = 0; i < node->workers; ++i) {
      RankPlace place;
      place.rank = static_cast<int>(round_.places.size());
      if (node->link) place.address = node->link->peer_address();
      round_.places.push_back(place);
    }
  }
  round_.nodes = static_cast<int>(nodes.size());
  start.role_of_node = number_roles(roles);
  const auto world_size = static_cast<int>(round_.places.size());
  try {
    if (number == 0) run_dir_ = job_.choose_run_dir(world_size);
    start.master_port = store_.begin_round();
  } catch (const Error& error) {
    verdict_.failure = error.what();
    verdict_.exit_code = error.code();
    return false;
  }
  start.run_dir = run_dir_.string();
  if (has_other_nodes()) store_.endpoint()->hold();
  live_ = LiveLine();
  watchdog_.emplace(WatchLimits{spec_.hang_timeout});
  verdict_.rounds = number + 1;
  verdict_.world_size = world_size;
  round_.begin = Clock::now();
  for (const Node* const node : nodes) {
    start.node_rank = node->rank;
    crew_.send(*node, start);
  }
  return true;
}

/// Until all workers have ended, one has failed or hangs, a node is lost, or the job is stopped: by
/// the user, or because one worker was asked to, by somebody else, and the others do not follow it
/// in time.
asio::awaitable<void> Coordinator::watch() {
  // A job may run for weeks: what ends it is an event.
  Deadline leave_deadline = kNoDeadline;
  while (!has_reason_to_end()) {
    std::optional<Crew::Event> event = co_await inbox_.next(leave_deadline);
    if (event) note(*event);
    if (!round_.leaver) continue;
    if (leave_deadline == kNoDeadline) {
      // All ranks agree to stop before one does: they are on their way.
      leave_deadline = Clock::now() + spec_.grace;
      AnnounceStop announce;
      announce.round = round_.number;
      announce.line = *round_.leaver +
                      " was asked to stop and has left after a checkpoint; waiting " +
                      format_duration(spec_.grace) + " for the others.";
      crew_.send_all(announce);
    } else if (Clock::now() >= leave_deadline) {
      round_.follow_too_late = true;
    }
  }
}

bool Coordinator::has_reason_to_end() const {
  return round_.failed || round_.follow_too_late || round_.user_signal || round_.hang ||
         round_.lost || round_.start_failure || round_.ended == round_.places.size();
}

asio::awaitable<void> Coordinator::stop(const RestartPolicy& policy) {
  store_.note_joined(round_.places);
  // Who times out has waited for its peers for a while: one that is stopped now was so by then.
  round_.frozen =
      watchdog_->frozen(round_.has_timed_out ? std::chrono::nanoseconds(0) : Watchdog::kFrozenFor);
  round_.is_stopping = true;
  if (has_other_nodes()) crew_.show("");
  const StopRound order = make_stop(policy);
  crew_.send_all(order);
  // Our own node always reports; another one may be stuck in a way that its beats do not show.
  const Clock::duration stacks = order.wants_stacks
                                     ? StackCollector::kSpyWait + StackCollector::kPrintWait
                                     : Clock::duration(0);
  const Clock::duration settling =
      order.keeps ? Clock::duration(WorkerGroup::kSettleWait) : Clock::duration(0);
  const Deadline deadline = Clock::now() + order.grace + stacks + settling + kReportWait;
  bool is_late = false;
  while (!crew_.has_all(&Node::has_ended)) {
    const Deadline until = is_late ? kNoDeadline : deadline;
    const std::optional<Crew::Event> event = co_await inbox_.next(until);
    if (event) note(*event);
    if (is_late || Clock::now() < deadline) continue;
    is_late = true;
    for (const Node* const node : crew_.seated()) {
      if (node->link && !node->has_ended) lose(node->id, "did not end its workers in time");
    }
  }
}

StopRound Coordinator::make_stop(const RestartPolicy& policy) const {
  StopRound order;
  order.round = round_.number;
  order.signal = SIGTERM;
  order.grace = spec_.grace;
  if (round_.user_signal) {
    // A scheduler sends SIGTERM some time after it has announced it by SIGUSR1.
    if (*round_.user_signal != SIGUSR1) order.signal = *round_.user_signal;
    order.reason = StopReason::preempt;
    order.line = signal_name(*round_.user_signal) + round_.signalled_at + ": stopping";
  } else if (round_.start_failure) {
    order.signal = SIGKILL;  // none of them has begun to work together
    order.line = round_.start_failure->text + "; stopping";
  } else if (round_.hang) {
    order.wants_stacks = true;
    order.line = round_.hang_line + "; stopping";
  } else if (round_.failed) {
    order.keeps = spec_.keeps_survivors && policy.left() > 0 && !round_.is_final;
    order.line = *round_.failed +
                 (order.keeps ? "; the round is over for the other" : "; stopping the other");
  } else if (round_.lost) {
    order.keeps = spec_.keeps_survivors && (policy.left() > 0 || spec_.lost_nodes_are_free);
    order.line = name_node(round_.lost->node_rank, round_.lost->host) +
                 " is lost: " + round_.lost->how +
                 (order.keeps ? "; the round is over for" : "; stopping");
  } else if (round_.follow_too_late) {
    const std::size_t alive = round_.places.size() - round_.ended;
    order.line = std::to_string(alive) + (alive == 1 ? " worker" : " workers") +
                 " did not follow within " + format_duration(spec_.grace) + "; stopping";
  }
  return order;
}

void Coordinator::note(const Crew::Event& event) {
  if (const auto* const came = std::get_if<Crew::NewsCame>(&event)) note_news(came->id, came->news);
  if (const auto* const came = std::get_if<Crew::NodeCame>(&event)) {
    const auto refusal = crew_.admit(*came, round_.number >= 0);
    const bool is_ill = refusal && came->hello.problem_code != 0 && !came->hello.asks;
    if (is_ill && refusal->code == came->hello.problem_code) ill_node_ = refusal;
  }
  if (const auto* const gone = std::get_if<Crew::NodeGone>(&event)) lose(gone->id, gone->how);
}

/// News of a round that is over, or of a node that was given up, mean nothing any more.
void Coordinator::note_news(int id, const News& news) {
  Node* const known = crew_.find(id);
  if (known == nullptr) return;
  Node& node = *known;
  if (const auto* const asked = std::get_if<StopAsked>(&news)) note_stop(node, *asked);
  const auto is_current = [&](const auto& value) {
    return value.round == round_.number && node.is_seated();
  };
  if (const auto* const beat = std::get_if<NewsBeat>(&news)) {
    node.clock.note(beat->echo_ns, steady_ns(), beat->echo_age_ns, beat->sent_ns);
    if (is_current(*beat)) node.samples = beat->samples;
    if (id == 0 && !round_.is_stopping && round_.number >= 0) look();
  }
  const auto* const started = std::get_if<Started>(&news);
  if (started != nullptr && is_current(*started)) note_start(node, *started);
  const auto* const exited = std::get_if<Exited>(&news);
  if (exited != nullptr && is_current(*exited)) note_exit(node, *exited);
  const auto* const failed = std::get_if<NodeFailed>(&news);
  // Our own node was fenced: that is why the others have left, though it is seen after them.
  const bool is_ours =
      id == 0 && round_.lost && failed != nullptr && failed->code == exit_code::kNodeLost;
  const bool is_cause = !round_.start_failure && (!round_.is_stopping || is_ours);
  if (failed != nullptr && is_current(*failed) && is_cause) {
    round_.start_failure = *failed;
    if (node.link) {
      round_.start_failure->text = node.name() + ": " + failed->text;
    }
  }
  const auto* const ended = std::get_if<GroupEnded>(&news);
  if (ended != nullptr && is_current(*ended)) {
    node.end = *ended;
    node.has_ended = true;
  }
}

void Coordinator::note_start(Node& node, const Started& started) {
  node.has_started = true;
  node.begin_ns = started.begin_ns;
  node.started_at = Clock::now();
  for (std::size_t i = 0; i < std::min(started.pids.size(), node.workers); ++i)
    round_.places[node.first_worker + i].pid = static_cast<pid_t>(started.pids[i]);
  // The first beat had to wait until its agent was made, so the answer told little of its clock.
  crew_.send_beat(node);
  if (round_.is_released || !crew_.has_all(&Node::has_started)) return;
  // Every worker of every node runs. Before, the store answers none: nobody trains in vain.
  round_.is_released = true;
  store_.expect(round_.places);
  if (has_other_nodes()) store_.endpoint()->release();
}

void Coordinator::note_exit(const Node& node, const Exited& exited) {
  // An ending remembers whether its worker had been in the store.
  store_.note_joined(round_.places);
  const auto rank = static_cast<std::size_t>(exited.ending.rank);
  if (rank >= round_.places.size() || round_.places[rank].ended) return;
  round_.places[rank].ended = true;
  WorkerReport told;
  told.ending = exited.ending;
  told.ending.at += node.begin_since(round_.begin);
  told.node_rank = node.rank;
  told.host = node.host;
  told.local_rank = exited.local_rank;
  told.pid = exited.pid;
  round_.told.emplace(exited.ending.rank, std::move(told));
  ++round_.ended;
  const std::string who = crew_.name_worker(exited.ending.rank, exited.pid);
  if (has_left(exited.ending) && !round_.leaver) round_.leaver = who;
  if (has_failed(exited.ending) && !round_.failed) {
    round_.failed = who + " has failed: " + to_text(exited.ending.status);
    round_.has_timed_out = exited.ending.status.exit_code() == exit_code::kTimeout;
    round_.is_final = RestartPolicy::is_final(exited.ending.status.exit_code());
  }
}

/// Each node's user presses alone: a scheduler sends the same signal to every node.
void Coordinator::note_stop(Node& node, const StopAsked& asked) {
  if (asked.signal == SIGKILL || asked.signal == SIGSTOP) return;  // no agent of ours says that
  const Clock::time_point now = Clock::now();
  press_ = asked.signal;
  if (!round_.is_stopping) {
    round_.user_signal = asked.signal;
    if (node.link) round_.signalled_at = " at " + node.name();
  }
  const bool is_press = asked.signal == SIGINT || asked.signal == SIGTERM;
  if (!is_press) return;
  if (!node.first_press) {
    node.first_press = now;
    return;
  }
  const bool is_same = now - *node.first_press <= WorkerGroup::kSamePress;
  if (is_killing_ || !round_.is_stopping || is_same) return;
  is_killing_ = true;
  StopRound kill;
  kill.round = round_.number;
  kill.signal = SIGKILL;
  crew_.send_all(kill);
}

/// A node is gone: from the job, and with it the round in which it had a place.
void Coordinator::lose(int id, const std::string& how) {
  const std::unique_ptr<Node> node = crew_.remove(id);
  if (!node) return;
  if (!node->is_seated() || round_.number < 0) {
    console_.warning(name_node(node->asked_rank, node->host) +
                     " has left before its first round: " + how);
    return;
  }
  const Clock::time_point heard = node->link->last_heard();
  fence_ = std::max(fence_, heard + kFence);
  if (round_.is_stopping) console_.error(node->name() + " is lost: " + how);
  const NodeLost lost{node->rank, node->host, how, {}};
  if (node->has_ended) {  // what it did in this round is known
    lost_between_ = lost;
    return;
  }
  if (!round_.lost) {
    round_.lost = lost;
    round_.lost_at = heard - round_.begin;
  }
  // What its workers did is not known; nobody waits for them.
  for (std::size_t i = 0; i < node->workers; ++i)
    round_.places[node->first_worker + i].ended = true;
}

/// At all workers of all nodes, as their newest beats show them.
void Coordinator::look() {
  store_.note_joined(round_.places);
  store_.call_roll(round_.places);
  std::vector<WorkerSample> samples(round_.places.size());
  for (std::size_t rank = 0; rank < samples.size(); ++rank)
    samples[rank].rank = static_cast<int>(rank);
  for (const Node* const node : crew_.seated()) {
    for (const WorkerSample& sample : node->samples) {
      const auto rank = static_cast<std::size_t>(sample.rank);
      if (rank >= samples.size()) continue;
      samples[rank] = sample;
      samples[rank].joined_store = round_.places[rank].joined;
      samples[rank].ended_at += node->begin_since(round_.begin);
    }
  }
  store_.note_clients(samples, round_.begin);
  const nanoseconds now = Clock::now() - round_.begin;
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    const auto since = samples[rank].waits_since;
    if (since && now - *since >= kLongWait) round_.places[rank].waited_at = now;
  }
  if (has_other_nodes()) crew_.show(live_.describe(now, samples));
  for (const Finding& finding : watchdog_->look(now, samples)) {
    const pid_t pid = round_.places[static_cast<std::size_t>(finding.rank)].pid;
    const std::string text = crew_.name_worker(finding.rank, pid) + " " + finding.text;
    if (finding.ends_job) {
      round_.hang = finding;
      round_.hang_line = text;
    } else {
      console_.warning(text + ". Others may wait for it.");
    }
  }
}

RoundResult Coordinator::conclude() {
  std::vector<WorkerReport> reports;
  std::vector<std::string> leftovers;
  RoundResult round;
  for (Node* const node : crew_.seated()) {
    round.kept_step = std::max(round.kept_step, node->end.kept_step);
    round.kept += node->end.kept;
    for (WorkerReport& report : node->end.workers) {
      if (static_cast<std::size_t>(report.ending.rank) >= round_.places.size()) continue;
      report.node_rank = node->rank;
      report.host = node->host;
      report.ending.at += node->begin_since(round_.begin);
      reports.push_back(std::move(report));
    }
    if (!node->end.gpu_error.empty()) crew_.put_last(*node, node->end.gpu_error);
    for (const std::string& leftover : node->end.leftovers)
      leftovers.push_back(node->link ? node->name() + ": " + leftover : leftover);
  }
  for (const WorkerReport& report : reports)
    round_.told.erase(report.ending.rank);
  for (auto& [rank, report] : round_.told)
    reports.push_back(std::move(report));  // of a lost node
  for (WorkerReport& report : reports) {
    const int rank = report.ending.rank;
    const auto& frozen = round_.frozen;
    const RankPlace& place = round_.places[static_cast<std::size_t>(rank)];
    report.ending.joined_store = place.joined;
    report.ending.waited_in_store =
        place.waited_at && report.ending.at - *place.waited_at < kGivingUp;
    report.ending.was_frozen = std::find(frozen.begin(), frozen.end(), rank) != frozen.end();
  }
  std::sort(reports.begin(), reports.end(), [](const WorkerReport& a, const WorkerReport& b) {
    return a.ending.rank < b.ending.rank;
  });
  round.checkpoint_step = round.kept_step;  // as good as a checkpoint
  std::vector<Ending> endings;
  for (const WorkerReport& report : reports) {
    endings.push_back(report.ending);
    // A program that writes no checkpoints, or says nothing of them, is not stuck by that.
    const bool tells_checkpoints = spec_.own_worker || report.checkpoint_step >= 0;
    round.has_page = round.has_page || (report.ending.opened_page && tells_checkpoints);
    round.checkpoint_step = std::max(round.checkpoint_step, report.checkpoint_step);
  }
  StopCause cause;
  cause.user_signal = round_.user_signal;
  if (round_.hang) {
    round_.hang = by_stacks(*round_.hang, stacks_of(reports));
    cause.hung_rank = round_.hang->rank;
  }
  cause.lost_node = round_.lost;
  cause.lost_at = round_.lost_at;
  round.outcome = judge(endings, cause);
  round.exit_code = exit_code_of(round.outcome, endings);
  round.lived = Clock::now() - round_.begin;
  round.is_clean = leftovers.empty();
  // A job whose every worker has finished is not done again, though one of its nodes was lost.
  const bool is_done = std::all_of(reports.begin(), reports.end(), [](const WorkerReport& report) {
    return report.ending.status.is_success() && !has_failed(report.ending);
  });
  const bool has_others = crew_.roster().is_enough() || spec_.replace_timeout.has_value();
  round.has_nodes =
      has_others && !(round_.lost && is_done && reports.size() == round_.places.size());
  verdict_.outcome = round.outcome;
  verdict_.exit_code = round.exit_code;
  verdict_.workers = std::move(reports);
  verdict_.leftovers = std::move(leftovers);
  verdict_.hang = round_.hang ? round_.hang->text : "";
  if (const auto first = first_failure(endings)) verdict_.teardown = round.lived - *first;
  if (!round.is_clean && verdict_.exit_code == exit_code::kOk) {
    verdict_.exit_code = exit_code::kInternal;
  }
  if (round_.start_failure) {
    // It is the launcher's own failure; that of an earlier round is a line of its own.
    verdict_.failure = round_.start_failure->text;
    verdict_.outcome = round.outcome = Succeeded();
    verdict_.exit_code = round.exit_code = round_.start_failure->code;
    verdict_.workers.clear();
  }
  return round;
}

std::string Coordinator::when_next(const RestartDecision& decision) const {
  if (!crew_.roster().is_enough()) {
    return "when another node has come, within " + format_duration(*spec_.replace_timeout);
  }
  if (awaits_another())
    return "when another node has come, or in " + format_duration(*spec_.replace_timeout);
  const Clock::duration fence = fence_ - Clock::now();
  if (fence > decision.pause) {
    return "in " + format_seconds(fence) + ", when the lost node's workers are surely dead";
  }
  return decision.pause.count() == 0 ? "now" : "in " + format_duration(decision.pause);
}

/// ", 2 of 3 ranks go on from step 7"; empty: none is kept.
std::string Coordinator::describe_kept(const RoundResult& round) const {
  if (round.kept == 0) return "";
  const std::string who =
      ", " + std::to_string(round.kept) + " of " + std::to_string(round_.places.size()) + " ranks ";
  return who + (round.kept_step < 0 ? "wait for it"
                                    : "go on from step " + std::to_string(round.kept_step));
}

void Coordinator::say_restart(const RoundResult& round, const RestartDecision& decision, int left) {
  if (decision.restart) {
    auto& earlier = verdict_.earlier_rounds;
    if (earlier.size() == Verdict::kRoundLines) earlier.erase(earlier.begin());
    earlier.push_back(summarize_round(verdict_, round_.number, round.lived));
    if (press_) return;  // there is no next one
    const bool is_free =
        spec_.lost_nodes_are_free && std::holds_alternative<NodeLost>(round.outcome);
    const std::string rest =
        ", " + std::to_string(left) + (left == 1 ? " restart is left" : " restarts are left");
    const std::string kept = describe_kept(round);
    console_.error(earlier.back() + "; round " + std::to_string(round_.number + 1) + " starts " +
                   when_next(decision) + kept + (is_free ? "" : rest) + ".");
    return;
  }
  const bool is_bad = std::holds_alternative<Failed>(round.outcome) ||
                      std::holds_alternative<NodeLost>(round.outcome);
  if (!is_bad) return;
  if (decision.exit_code != round.exit_code) verdict_.policy = decision.reason;
  verdict_.exit_code = decision.exit_code;
  if (!decision.reason.empty()) console_.info("no further round: " + decision.reason + ".");
}

/// Suspends: for the decision's pause, or until the user stops the job.
asio::awaitable<void> Coordinator::pause(RestartDecision decision) {
  const Deadline deadline = Clock::now() + decision.pause;
  while (!press_ && (crew_.roster().is_enough() || spec_.replace_timeout)) {
    std::optional<Crew::Event> event = co_await inbox_.next(deadline);
    if (!event) break;
    note(*event);
  }
}

asio::awaitable<void> Coordinator::end() {
  is_over_ = true;
  ask_timer_.cancel();
  verdict_.duration = Clock::now() - begin_;
  JobEnd own = make_end(kOwnWorkers);
  JobEnd others = make_end(kTheirWorkers);
  co_await crew_.close(std::move(own), std::move(others));
  store_.close();
}

JobEnd Coordinator::make_end(std::size_t most_workers) const {
  return describe_end(verdict_, spec_, job_.own.host, most_workers);
}

JobEnd Coordinator::abandon(const std::string& failure, int exit_code) {
  verdict_.failure = failure;
  verdict_.outcome = Succeeded();  // that of an earlier round is a line of its own
  verdict_.workers.clear();
  verdict_.exit_code = exit_code;
  verdict_.duration = Clock::now() - begin_;
  crew_.tell_others(make_end(kTheirWorkers));
  return make_end(kOwnWorkers);
}

}  // namespace ddp::launcher
