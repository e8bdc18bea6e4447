#include "launcher/run/coordinator.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "common/exit_code.h"
#include "launcher/plan/report.h"
#include "launcher/plan/restart_line.h"
#include "launcher/run/job_look.h"

namespace ddp::launcher {
namespace {

// In the records of the nodes: node 0's has nearly all; the others' must reach all in a moment.
constexpr std::size_t kOwnWorkers = 16384;
constexpr std::size_t kTheirWorkers = 200;
constexpr std::chrono::seconds kAskPause(1);
constexpr std::chrono::seconds kRefuseFor(2);  // nodes that wait for us try again within one

}  // namespace

Coordinator::Coordinator(asio::io_context& io,
                         Console& console,
                         const JobSpec& spec,
                         Rendezvous& rendezvous,
                         const TakeCommand& take_command,
                         WhySlept why_slept,
                         ChooseRunDir choose_run_dir)
    : io_(io),
      console_(console),
      spec_(spec),
      host_(rendezvous.own.host),
      question_(rendezvous.question),
      take_command_(take_command),
      why_slept_(std::move(why_slept)),
      choose_run_dir_(std::move(choose_run_dir)),
      inbox_(io),
      store_(io, console, spec, std::move(rendezvous.listeners)),
      links_(io,
             inbox_,
             console,
             NodeLinks::Rules{
                 rendezvous.own, rendezvous.welcome, spec.token, spec.replace_timeout.has_value()},
             [this](const NodeCommand& command) { tell_own_node(command); }),
      ask_timer_(io) {
  if (has_other_nodes()) links_.open(*store_.endpoint());
}

void Coordinator::start() {
  store_.start();
  asio::co_spawn(io_, run_job(), rethrow);
  if (question_) asio::co_spawn(io_, ask_again(), rethrow);
}

void Coordinator::tell(const NodeEvent& event) {
  inbox_.push(NodeLinks::EventCame{0, event});
}

void Coordinator::tell_own_node(const NodeCommand& command) {
  // When it is this agent that was stopped, the others are not lost to it: it is lost to them.
  if (std::holds_alternative<EndRound>(command)) note_lease_over();
  if (!take_command_(command)) throw std::logic_error("our own coordinator gives a wrong command");
}

void Coordinator::note_lease_over() {
  const std::string why = why_slept_();
  if (!why.empty()) inbox_.push(NodeLinks::OwnNodeSlept{round_->decisions().number(), why});
}

std::string Coordinator::store_address() const {
  return links_.own_address().empty() ? spec_.master_addr : links_.own_address();
}

/// Until the first round: whoever listens at the master address may have come after us, and be the
/// right one.
asio::awaitable<void> Coordinator::ask_again() {
  while (true) {
    ask_timer_.expires_after(kAskPause);
    co_await ask_timer_.async_wait(kResult);
    if (round_ || is_over_) co_return;
    const std::optional<Answer> answer = co_await ask_once(io_, *question_, kAskFor);
    const auto* const refusal = answer ? std::get_if<Refusal>(&*answer) : nullptr;
    if (refusal != nullptr) co_return inbox_.push(NodeLinks::OtherNodeZero{*refusal});
  }
}

asio::awaitable<void> Coordinator::run_job() {
  RestartPolicy policy(
      RestartLimits{spec_.max_restarts, spec_.died_within, spec_.lost_nodes_are_free});
  if (spec_.problem_code != 0) co_await refuse_nodes();
  bool are_here = co_await gather(spec_.join_timeout);
  while (are_here) {
    if (!begin_round(policy)) break;
    // All nodes have joined, ranks are fixed, and every node is told to start.
    co_await watch();
    // No process of this round lives on any node that can be heard, or it is named, or waits for
    // the next round.
    const RoundResult round =
        round_->decisions().conclude(Clock::now(), see_presence().can_go_on());
    verdict_.note_round(round);
    // The root cause is known and does not change.
    const RestartDecision decision = policy.decide(round);
    take_decision(round, decision, policy.remaining());
    if (!decision.restart) break;
    co_await pause(decision);
    are_here = co_await gather(spec_.replace_timeout.value_or(std::chrono::milliseconds(0)));
  }
  co_await end();
}

/// This node cannot execute the program, so the job does not begin. Suspends: until all other nodes
/// have heard it, those that come in time.
asio::awaitable<void> Coordinator::refuse_nodes() {
  why_not_begun_ = Refusal{spec_.problem_code, spec_.problem};
  const Deadline deadline = Clock::now() + kRefuseFor;
  int left = spec_.max_nodes - 1;
  while (left > 0 && !requested_signal_) {
    std::optional<NodeLinks::Event> event = co_await inbox_.next(deadline);
    if (!event) break;
    const auto* const came = std::get_if<NodeLinks::NodeCame>(&*event);
    if (came != nullptr && !came->hello.asks) --left;
    note(std::move(*event));
  }
}

/// Waits until the nodes of the next round are here. False: they are not, or the user stops the
/// job; then the verdict says so.
asio::awaitable<bool> Coordinator::gather(std::chrono::milliseconds limit) {
  NodeWait wait({!round_, limit, spec_.last_call}, Clock::now());
  while (true) {
    const Clock::time_point now = Clock::now();
    const bool is_reminder = wait.take_reminder(now);
    const NodeWait::Step step = wait.advance(see_presence(), replace_not_before_, now);
    if (step == NodeWait::Step::begin) co_return true;
    if (step == NodeWait::Step::give_up) break;
    if (is_reminder) console_.info(links_.table().who_is_missing());
    std::optional<NodeLinks::Event> event = co_await inbox_.next(wait.next());
    if (event) note(std::move(*event));
  }
  note_not_begun(limit);
  co_return false;
}

NodeWait::Presence Coordinator::see_presence() const {
  const Round* const round = round_ ? &round_->decisions() : nullptr;
  const bool is_called_off = requested_signal_ || (round == nullptr && why_not_begun_);
  return NodeWait::see_presence(
      links_.table(), round, spec_.replace_timeout.has_value(), is_called_off);
}

/// There is no further round, or not even one.
void Coordinator::note_not_begun(std::chrono::milliseconds waited) {
  verdict_.note_not_begun({requested_signal_,
                           why_not_begun_,
                           links_.table().who_is_missing(),
                           waited,
                           round_ ? round_->decisions().later_loss() : std::nullopt});
}

/// False: the round cannot begin, and the verdict says why.
bool Coordinator::begin_round(const RestartPolicy& policy) {
  ask_timer_.cancel();
  JobRound::Assignment assignment = JobRound::assign_ranks(links_, policy.round());
  try {
    if (policy.round() == 0) run_dir_ = choose_run_dir_(assignment.world_size);
    assignment.start.master_port = store_.begin_round();
  } catch (const Error& error) {
    verdict_.note_failure(error.what(), error.code());
    return false;
  }
  verdict_.note_begun(policy.round(), assignment.world_size);
  assignment.start.run_dir = run_dir_.string();
  const auto lose_node = [this](int id, const std::string& how) { lose(id, how); };
  const JobRound::Parts parts{links_, store_, console_, spec_, begin_, lose_node};
  round_.emplace(parts, policy, std::move(assignment));
  round_->begin();
  return true;
}

/// Until every node has ended its workers, or is lost. A job may run for weeks: what ends a round
/// is an event, or the round's own deadline.
asio::awaitable<void> Coordinator::watch() {
  while (!round_->decisions().is_over()) {
    std::optional<NodeLinks::Event> event =
        co_await inbox_.next(round_->decisions().deadline().value_or(kNoDeadline));
    if (event) note(std::move(*event));
    round_->carry_out();
  }
}

void Coordinator::note(NodeLinks::Event event) {
  // Before what it leads to: an ending remembers who has joined.
  if (round_ && !round_->decisions().is_over()) round_->note_store_joins();
  if (auto* const came = std::get_if<NodeLinks::EventCame>(&event))
    note_event(came->id, std::move(came->event));
  if (const auto* const came = std::get_if<NodeLinks::NodeCame>(&event)) {
    const auto refusal = links_.admit(*came, round_.has_value());
    if (refusal && ends_job(came->hello, *refusal)) why_not_begun_ = refusal;
  }
  if (const auto* const other = std::get_if<NodeLinks::OtherNodeZero>(&event))
    why_not_begun_ = other->refusal;
  if (const auto* const lost = std::get_if<NodeLinks::LinkLost>(&event)) lose(lost->id, lost->how);
  if (const auto* const slept = std::get_if<NodeLinks::OwnNodeSlept>(&event))
    round_->decisions().note_own_node_slept(slept->round, slept->why, Clock::now());
}

/// Events of a node that was given up, or has no place in the round, mean nothing for it; but
/// every node's user may stop the job.
void Coordinator::note_event(int id, NodeEvent event) {
  LinkedNode* const node = links_.find(id);
  if (node == nullptr) return;
  if (const auto* const asked = std::get_if<StopRequested>(&event))
    note_stop_request(*node, asked->signal);
  if (const auto* const reply = std::get_if<HeartbeatReply>(&event)) node->note_reply(*reply);
  if (round_ && node->is_in_round()) round_->note(*node, std::move(event), Clock::now());
}

void Coordinator::note_stop_request(const LinkedNode& node, int signal) {
  if (signal == SIGKILL || signal == SIGSTOP) return;  // no agent of ours says that
  requested_signal_ = signal;
  const std::string where = node.link ? " at " + node.name() : "";
  if (round_) round_->decisions().note_stop_request(node.id, where, signal, Clock::now());
}

/// A node is gone: from the job, and with it the round in which it had a place.
void Coordinator::lose(int id, const std::string& how) {
  const std::unique_ptr<LinkedNode> node = links_.remove(id);
  if (!node) return;
  if (!node->is_in_round() || !round_) {
    console_.warning(name_node(node->asked_node_rank, node->host) +
                     " has left while it waited for a round: " + how);
    return;
  }
  const Clock::time_point heard = node->link->last_heard();
  replace_not_before_ = std::max(replace_not_before_, heard + kReplaceAfter);
  if (round_->decisions().is_ending()) console_.error(node->name() + " is lost: " + how);
  round_->decisions().note_node_lost(node->node_rank, how, heard, Clock::now());
}

void Coordinator::take_decision(const RoundResult& round,
                                const RestartDecision& decision,
                                int left) {
  if (!decision.restart) {
    verdict_.note_last_round(decision);
    if (!decision.reason.empty()) console_.info("no further round: " + decision.reason + ".");
    return;
  }
  const std::string& earlier = verdict_.note_restart();
  if (requested_signal_) return;  // there is no next one
  RestartFacts facts;
  facts.next_round = round_->decisions().number() + 1;
  facts.world_size = verdict_.value().world_size;
  facts.nodes = see_presence();
  facts.replace_timeout = spec_.replace_timeout.value_or(std::chrono::milliseconds(0));
  facts.until_replaceable = replace_not_before_ - Clock::now();
  if (!decision.is_free) facts.restarts_left = left;
  console_.error(earlier + "; " + describe_restart(round, decision, facts));
}

/// Suspends: for the decision's pause, or until the user stops the job.
asio::awaitable<void> Coordinator::pause(RestartDecision decision) {
  const Deadline deadline = Clock::now() + decision.pause;
  while (!requested_signal_ && see_presence().can_go_on()) {
    std::optional<NodeLinks::Event> event = co_await inbox_.next(deadline);
    if (!event) break;
    note(std::move(*event));
  }
}

asio::awaitable<void> Coordinator::end() {
  is_over_ = true;
  ask_timer_.cancel();
  verdict_.note_end(Clock::now() - begin_);
  EndJob own = make_end(kOwnWorkers);
  EndJob others = make_end(kTheirWorkers);
  co_await links_.close(std::move(own), std::move(others));
  store_.close();
}

JobView Coordinator::look_at_job() const {
  const Round* const round = round_ ? &round_->decisions() : nullptr;
  return ddp::launcher::look_at_job(spec_, host_, verdict_.value(), links_, round);
}

EndJob Coordinator::make_end(std::size_t most_workers) const {
  return describe_end(verdict_.value(), spec_, host_, most_workers);
}

EndJob Coordinator::fail(const std::string& failure, int exit_code) {
  verdict_.note_failure(failure, exit_code);
  verdict_.note_end(Clock::now() - begin_);
  links_.tell_others(make_end(kTheirWorkers));
  return make_end(kOwnWorkers);
}

}  // namespace ddp::launcher
