#include "launcher/run/coordinator.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <numeric>

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

// In the records of the nodes: node 0's has all but those of the largest jobs, the others' must
// reach all of them in a moment.
constexpr std::size_t kOwnWorkers = 16384;
constexpr std::size_t kTheirWorkers = 200;
constexpr std::chrono::seconds kAskPause(1);
// From the end of the grace to the last report of a node that can still report.
constexpr Clock::duration kReportWait =
    WorkerGroup::kKillWait + WorkerGroup::kDrainWait + std::chrono::seconds(5);
}  // namespace

Coordinator::Coordinator(asio::io_context& io, Console& console, const JobSpec& spec, Job job)
    : io_(io),
      console_(console),
      spec_(spec),
      job_(std::move(job)),
      inbox_(io),
      store_(io, console, spec),
      links_(io,
             inbox_,
             console,
             NodeLinks::Rules{job_.own, job_.welcome, spec.token, spec.replace_timeout.has_value()},
             job_.tell_own_node),
      ask_timer_(io) {
  if (has_other_nodes()) links_.open(*store_.endpoint());
}

void Coordinator::start() {
  store_.start();
  asio::co_spawn(io_, run_job(), rethrow);
  if (job_.question) asio::co_spawn(io_, ask_again(), rethrow);
}

/// Until the first round: whoever listens at the master address may have come after us, and be the
/// right one.
asio::awaitable<void> Coordinator::ask_again() {
  while (!round_ && !is_over_) {
    ask_timer_.expires_after(kAskPause);
    co_await ask_timer_.async_wait(kResult);
    if (round_ || is_over_) break;
    const std::optional<Answer> answer = co_await ask_once(io_, *job_.question, kAskFor);
    const auto* const refusal = answer ? std::get_if<Refusal>(&*answer) : nullptr;
    if (refusal == nullptr) continue;
    ill_node_ = *refusal;
    inbox_.push(NodeLinks::NodeGone{-1, ""});  // nobody: it wakes the story
    break;
  }
}

void Coordinator::take(const NodeEvent& event) {
  inbox_.push(NodeLinks::EventCame{0, event});
}

const std::string& Coordinator::own_address() const {
  return links_.own_address().empty() ? spec_.master_addr : links_.own_address();
}

asio::awaitable<void> Coordinator::run_job() {
  RestartPolicy policy(
      RestartLimits{spec_.max_restarts, spec_.died_within, spec_.lost_nodes_are_free});
  bool is_here = co_await gather(spec_.join_timeout);
  while (is_here) {
    // All nodes have joined; node ranks are fixed.
    if (!begin_round(policy)) break;
    // Ranks are fixed, and every node is told to start.
    co_await watch();
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
  const bool is_first = !round_;
  const Deadline last = Clock::now() + limit;
  Deadline roll = Clock::now() + kRollCall;
  std::optional<Deadline> last_call;
  while (!press_ && !(is_first && ill_node_)) {
    const Clock::time_point now = Clock::now();
    if (now >= fence_) {
      const bool may_begin = !is_first && (now >= last || !awaits_another());
      if (links_.table().is_full() || (links_.table().is_enough() && may_begin)) co_return true;
      if (links_.table().is_enough() && !last_call) last_call = now + spec_.last_call;
      if (last_call && now >= *last_call) co_return true;
    }
    if (!links_.table().is_enough()) last_call.reset();
    if (!links_.table().is_enough() && now >= last) break;
    if (now >= roll) {
      console_.info(links_.table().who_is_missing());
      roll += kRollCall;
    }
    Deadline next = std::min(roll, last_call.value_or(kNoDeadline));
    if (!links_.table().is_enough() || awaits_another()) next = std::min(next, last);
    if (now < fence_) next = std::min(next, fence_);
    std::optional<NodeLinks::Event> event = co_await inbox_.next(next);
    if (event) note(std::move(*event));
  }
  if (press_) {
    // It came when there was no worker that could be told.
    verdict_.outcome = Stopped{*press_};
    verdict_.exit_code = exit_code::of_signal(*press_);
  } else if (is_first && ill_node_) {
    fail(ill_node_->text, ill_node_->code);
  } else if (is_first) {
    fail("the job has not begun: " + links_.table().who_is_missing() + "; waited " +
             format_duration(limit) +
             ". Start them with the same --nnodes, --master-addr and --master-port.",
         exit_code::kRendezvous);
  } else {
    verdict_.policy = limit.count() == 0 ? "too few nodes are left"
                                         : "no other node came within " + format_duration(limit);
    if (round_->lost_later()) {
      verdict_.outcome = *round_->lost_later();
      verdict_.exit_code = exit_code::kNodeLost;
      verdict_.hang.clear();
    } else if (!verdict_.earlier_rounds.empty()) {
      verdict_.earlier_rounds.pop_back();  // it is the last one
    }
  }
  co_return false;
}

/// False: the round cannot begin, and the verdict says why.
bool Coordinator::begin_round(const RestartPolicy& policy) {
  ask_timer_.cancel();
  StartRound start;
  start.round = policy.round();
  const std::vector<Node*> nodes = links_.assign_ranks();
  std::vector<std::string> roles;
  std::vector<Round::Node> places;
  for (const Node* const node : nodes) {
    start.workers_of_node.push_back(static_cast<int>(node->workers));
    roles.push_back(links_.table().find(node->id).hello.role);
    const std::string address = node->link ? node->link->peer_address() : "";
    places.push_back(Round::Node{node->host, address, node->workers});
  }
  start.role_of_node = number_roles(roles);
  verdict_.world_size = std::reduce(start.workers_of_node.begin(), start.workers_of_node.end());
  try {
    if (start.round == 0) run_dir_ = job_.choose_run_dir(verdict_.world_size);
    start.master_port = store_.begin_round();
  } catch (const Error& error) {
    fail(error.what(), error.code());
    return false;
  }
  start.run_dir = run_dir_.string();
  if (has_other_nodes()) store_.endpoint()->hold();
  live_ = LiveLine();
  verdict_.rounds = start.round + 1;
  round_.emplace(make_rules(policy), std::move(places), Clock::now());
  for (const Node* const node : nodes) {
    start.node_rank = node->rank;
    links_.send(*node, start);
  }
  return true;
}

Round::Rules Coordinator::make_rules(const RestartPolicy& policy) const {
  Round::Rules rules;
  rules.number = policy.round();
  rules.grace = spec_.grace;
  rules.watch.hang_timeout = spec_.hang_timeout;
  rules.keeps_survivors = spec_.keeps_survivors;
  rules.has_restarts = policy.left() > 0;
  rules.lost_nodes_are_free = spec_.lost_nodes_are_free;
  rules.own_worker = spec_.own_worker;
  rules.report_wait = kReportWait;
  rules.stacks_wait = StackCollector::kSpyWait + StackCollector::kPrintWait;
  rules.settle_wait = WorkerGroup::kSettleWait;
  return rules;
}

/// Until every node has ended its workers, or is lost. A job may run for weeks: what ends a round
/// is an event, or the round's own deadline.
asio::awaitable<void> Coordinator::watch() {
  while (!round_->is_over()) {
    std::optional<NodeLinks::Event> event =
        co_await inbox_.next(round_->deadline().value_or(kNoDeadline));
    if (event) note(std::move(*event));
    carry_out();
  }
}

/// A command may be the cause of another one.
void Coordinator::carry_out() {
  round_->note_time(Clock::now());
  for (std::vector<Round::Command> commands = round_->take_commands(); !commands.empty();
       commands = round_->take_commands()) {
    for (const Round::Command& command : commands)
      carry_out(command);
  }
}

void Coordinator::carry_out(const Round::Command& command) {
  if (const auto* const tell = std::get_if<Round::TellNodes>(&command)) {
    const bool ends = std::holds_alternative<StopRound>(tell->command);
    if (ends && has_other_nodes()) links_.show("");
    links_.send_all(tell->command);
  }
  if (std::holds_alternative<Round::ReleaseStore>(command)) {
    store_.expect(round_->places());
    if (has_other_nodes()) store_.endpoint()->release();
  }
  if (const auto* const late = std::get_if<Round::GiveUpNode>(&command)) {
    const Node* const node = links_.at(late->node_rank);
    if (node != nullptr) lose(node->id, late->how);
  }
  if (const auto* const warn = std::get_if<Round::Warn>(&command)) console_.warning(warn->text);
}

void Coordinator::note(NodeLinks::Event event) {
  // Who has joined is known before what it leads to: an ending remembers it.
  if (round_ && !round_->is_over()) round_->note_joined(store_.take_joined());
  if (auto* const came = std::get_if<NodeLinks::EventCame>(&event)) {
    note_event(came->id, std::move(came->event));
  }
  if (const auto* const came = std::get_if<NodeLinks::NodeCame>(&event)) {
    const auto refusal = links_.admit(*came, round_.has_value());
    const bool is_ill = refusal && came->hello.problem_code != 0 && !came->hello.asks;
    if (is_ill && refusal->code == came->hello.problem_code) ill_node_ = refusal;
  }
  if (const auto* const gone = std::get_if<NodeLinks::NodeGone>(&event)) lose(gone->id, gone->how);
}

/// NodeEvent of a node that was given up, or has no place in the round, mean nothing for it; but
/// every node's user may stop the job.
void Coordinator::note_event(int id, NodeEvent event) {
  Node* const node = links_.find(id);
  if (node == nullptr) return;
  const Clock::time_point now = Clock::now();
  if (const auto* const asked = std::get_if<StopAsked>(&event)) note_stop(*node, asked->signal);
  auto* const heartbeat = std::get_if<HeartbeatReply>(&event);
  if (heartbeat != nullptr) {
    node->clock.note(heartbeat->echo_ns, steady_ns(), heartbeat->echo_age_ns, heartbeat->sent_ns);
  }
  if (!round_ || !node->has_rank()) return;
  if (heartbeat != nullptr) {
    if (heartbeat->round == round_->number()) node->samples = std::move(heartbeat->samples);
    if (id == 0 && !round_->is_stopping()) look();
  }
  const auto* const started = std::get_if<Started>(&event);
  if (started != nullptr && started->round == round_->number()) {
    node->begin_ns = started->begin_ns;
    node->started_at = now;
    // The first heartbeat had to wait until its agent was made, so the answer told little of its
    // clock.
    links_.send_heartbeat(*node);
    round_->note_started(node->rank, *started, now);
  }
  if (auto* const exited = std::get_if<Exited>(&event)) {
    exited->ending.at += node->begin_since(round_->begin());
    round_->note_exited(node->rank, *exited, now);
  }
  if (const auto* const failed = std::get_if<NodeFailed>(&event)) {
    round_->note_failed(node->rank, *failed, now);
  }
  if (auto* const ended = std::get_if<GroupEnded>(&event)) {
    for (WorkerReport& report : ended->workers)
      report.ending.at += node->begin_since(round_->begin());
    const bool is_current = ended->round == round_->number();
    if (is_current && !ended->gpu_error.empty()) links_.put_last(*node, ended->gpu_error);
    round_->note_ended(node->rank, *ended, now);
  }
}

void Coordinator::note_stop(const Node& node, int signal) {
  if (signal == SIGKILL || signal == SIGSTOP) return;  // no agent of ours says that
  press_ = signal;
  const std::string where = node.link ? " at " + node.name() : "";
  if (round_) round_->note_stop(node.id, where, signal, Clock::now());
}

/// A node is gone: from the job, and with it the round in which it had a place.
void Coordinator::lose(int id, const std::string& how) {
  const std::unique_ptr<Node> node = links_.remove(id);
  if (!node) return;
  if (!node->has_rank() || !round_) {
    console_.warning(name_node(node->asked_rank, node->host) +
                     " has left before its first round: " + how);
    return;
  }
  const Clock::time_point heard = node->link->last_heard();
  fence_ = std::max(fence_, heard + kFence);
  if (round_->is_stopping()) console_.error(node->name() + " is lost: " + how);
  round_->note_lost(node->rank, how, heard, Clock::now());
}

/// At all workers of all nodes, as their newest heartbeats show them.
void Coordinator::look() {
  store_.call_roll(round_->places());
  std::vector<WorkerSample> samples(round_->places().size());
  for (std::size_t rank = 0; rank < samples.size(); ++rank)
    samples[rank].rank = static_cast<int>(rank);
  for (const Node* const node : links_.with_rank()) {
    for (const WorkerSample& sample : node->samples) {
      const auto rank = static_cast<std::size_t>(sample.rank);
      if (rank >= samples.size()) continue;
      samples[rank] = sample;
      samples[rank].ended_at += node->begin_since(round_->begin());
    }
  }
  store_.note_clients(samples, round_->begin());
  const Clock::time_point now = Clock::now();
  if (has_other_nodes()) links_.show(live_.describe(now - round_->begin(), samples));
  round_->note_samples(std::move(samples), now);
}

RoundResult Coordinator::conclude() {
  const bool has_others = links_.table().is_enough() || spec_.replace_timeout.has_value();
  RoundResult round = round_->conclude(Clock::now(), has_others);
  verdict_.outcome = round.outcome;
  verdict_.exit_code = round.exit_code;
  verdict_.workers = std::move(round.workers);
  verdict_.unkilled = std::move(round.unkilled);
  verdict_.hang = round.hang;
  verdict_.teardown = round.teardown;
  if (!round.is_clean && verdict_.exit_code == exit_code::kOk) {
    verdict_.exit_code = exit_code::kInternal;
  }
  return round;
}

/// The launcher's own failure; that of an earlier round is a line of its own.
void Coordinator::fail(const std::string& text, int code) {
  verdict_.outcome = LaunchFailed{code, text};
  verdict_.exit_code = code;
  verdict_.workers.clear();
}

std::string Coordinator::when_next(const RestartDecision& decision) const {
  if (!links_.table().is_enough()) {
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
  const std::string who = ", " + std::to_string(round.kept) + " of " +
                          std::to_string(round_->places().size()) + " ranks ";
  return who + (round.kept_step < 0 ? "wait for it"
                                    : "go on from step " + std::to_string(round.kept_step));
}

void Coordinator::say_restart(const RoundResult& round, const RestartDecision& decision, int left) {
  if (decision.restart) {
    auto& earlier = verdict_.earlier_rounds;
    if (earlier.size() == Verdict::kRoundLines) earlier.erase(earlier.begin());
    earlier.push_back(summarize_round(verdict_, round_->number(), round.lived));
    if (press_) return;  // there is no next one
    const bool is_free =
        spec_.lost_nodes_are_free && std::holds_alternative<NodeLost>(round.outcome);
    const std::string rest =
        ", " + std::to_string(left) + (left == 1 ? " restart is left" : " restarts are left");
    const std::string kept = describe_kept(round);
    console_.error(earlier.back() + "; round " + std::to_string(round_->number() + 1) + " starts " +
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
  while (!press_ && (links_.table().is_enough() || spec_.replace_timeout)) {
    std::optional<NodeLinks::Event> event = co_await inbox_.next(deadline);
    if (!event) break;
    note(std::move(*event));
  }
}

asio::awaitable<void> Coordinator::end() {
  is_over_ = true;
  ask_timer_.cancel();
  verdict_.duration = Clock::now() - begin_;
  JobEnd own = make_end(kOwnWorkers);
  JobEnd others = make_end(kTheirWorkers);
  co_await links_.close(std::move(own), std::move(others));
  store_.close();
}

JobEnd Coordinator::make_end(std::size_t most_workers) const {
  return describe_end(verdict_, spec_, job_.own.host, most_workers);
}

JobEnd Coordinator::abandon(const std::string& failure, int exit_code) {
  fail(failure, exit_code);
  verdict_.duration = Clock::now() - begin_;
  links_.tell_others(make_end(kTheirWorkers));
  return make_end(kOwnWorkers);
}

}  // namespace ddp::launcher
