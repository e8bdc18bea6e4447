#include "launcher/run/coordinator.h"

#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "launcher/plan/round/job_report.h"
#include "launcher/run/job_snapshot.h"

namespace ddp::launcher {
namespace {

// Workers in a node's record. Node 0's has nearly all; the others' must reach all nodes quickly.
constexpr std::size_t kOwnWorkers = 16384;
constexpr std::size_t kTheirWorkers = 200;
constexpr std::chrono::seconds kAskPause(1);

}  // namespace

Coordinator::Coordinator(asio::io_context& io,
                         FileWriter& writer,
                         Console& console,
                         const JobSpec& spec,
                         Rendezvous& rendezvous,
                         const NoteCommand& note_command,
                         WhySlept why_slept,
                         ChooseRunDir choose_run_dir)
    : io_(io),
      console_(console),
      spec_(spec),
      host_(rendezvous.own.host),
      node_zero_question_(rendezvous.node_zero_question),
      note_command_(note_command),
      why_slept_(std::move(why_slept)),
      choose_run_dir_(std::move(choose_run_dir)),
      inbox_(io),
      store_(io, console, spec, std::move(rendezvous.listeners)),
      links_(io,
             inbox_,
             console,
             NodeLinks::Config{
                 rendezvous.own, rendezvous.welcome, spec.token, spec.replace_timeout.has_value()},
             [this](const NodeCommand& command) { command_own_node(command); }),
      job_(Job::make_config(spec), links_.table(), begin_),
      ask_timer_(io),
      debug_(io, writer, spec, links_) {
  if (has_other_nodes()) links_.open(*store_.endpoint());
}

void Coordinator::start() {
  store_.start();
  asio::co_spawn(io_, run_job(), rethrow);
  if (node_zero_question_) asio::co_spawn(io_, ask_again(), rethrow);
}

void Coordinator::send_event(const NodeEvent& event) {
  inbox_.push(NodeLinks::EventReceived{0, event});
}

void Coordinator::command_own_node(const NodeCommand& command) {
  if (!note_command_(command)) throw std::logic_error("our own coordinator gives a wrong command");
}

void Coordinator::note_fenced() {
  inbox_.push(NodeLinks::OwnNodeFenced());
}

std::string Coordinator::store_address() const {
  return links_.own_address().empty() ? spec_.master_addr : links_.own_address();
}

/// Until the first round, asks whether another agent listens at the master address. It may have
/// started after us and be the true node 0.
asio::awaitable<void> Coordinator::ask_again() {
  while (true) {
    ask_timer_.expires_after(kAskPause);
    co_await ask_timer_.async_wait(kResult);
    if (runner_ || job_.state() == Job::State::over) co_return;
    const std::optional<Answer> answer = co_await ask_once(io_, *node_zero_question_, kAskFor);
    const auto* const refusal = answer ? std::get_if<Refusal>(&*answer) : nullptr;
    if (refusal != nullptr) co_return inbox_.push(NodeLinks::OtherNodeZero{*refusal});
  }
}

asio::awaitable<void> Coordinator::run_job() {
  for (Job::Action action = advance(); action != Job::Action::end; action = advance()) {
    if (action == Job::Action::begin_round) {
      begin_round();
      continue;
    }
    std::optional<NodeLinks::Event> event =
        co_await inbox_.next(job_.deadline().value_or(kNoDeadline));
    // Take all events that are there before the next action, such as a lost node or a stop request.
    do {
      if (event) note(std::move(*event));
      if (is_in_round()) runner_->carry_out();
      event = co_await inbox_.next(Clock::now());
    } while (event);
  }
  co_await end();
}

Job::Action Coordinator::advance() {
  const Job::Action action = job_.advance(Clock::now());
  for (const Job::Line& line : job_.take_lines())
    console_.print(line.level, line.text);
  return action;
}

/// Enough nodes are here: fixes the ranks, and tells every node to start.
void Coordinator::begin_round() {
  ask_timer_.cancel();
  RoundRunner::Assignment assignment = RoundRunner::assign_ranks(links_, job_.next_round());
  // The last steps that may fail before a node is told to start.
  try {
    debug_.choose(assignment);
    if (job_.next_round() == 0) run_dir_ = choose_run_dir_(assignment.world_size);
    assignment.start.master_port = store_.begin_round();
    debug_.take_terminal(assignment);
  } catch (const Error& error) {
    job_.note_launcher_failed(error.what(), error.code());
    return;
  }
  assignment.start.run_dir = run_dir_.string();
  const RoundRunner::Parts parts{
      links_, store_, console_, spec_, begin_, [this](int id, const std::string& how) {
        declare_node_lost(id, how);
      }};
  Round& round = job_.begin_round(RoundRunner::describe_nodes(links_, assignment), Clock::now());
  runner_.emplace(parts, round);
  runner_->begin(std::move(assignment));
}

void Coordinator::note(NodeLinks::Event event) {
  if (is_in_round()) note_before_all();
  if (auto* const came = std::get_if<NodeLinks::EventReceived>(&event))
    note_event(came->id, std::move(came->event));
  if (const auto* const came = std::get_if<NodeLinks::NodeJoined>(&event))
    job_.note_answered(came->hello, links_.admit(*came, runner_.has_value()));
  if (const auto* const other = std::get_if<NodeLinks::OtherNodeZero>(&event))
    job_.note_other_node_zero(other->refusal);
  if (const auto* const lost = std::get_if<NodeLinks::LinkLost>(&event))
    declare_node_lost(lost->id, lost->how);
}

/// Notes facts that may explain the next event: which ranks have joined the store, and whether this
/// agent did not run, so that the other nodes have lost it.
void Coordinator::note_before_all() {
  runner_->note_store_joins();
  if (const std::optional<std::string> why = why_slept_())
    job_.note_own_node_slept(*why, Clock::now());
}

/// Ignores events of a node that was lost. Of a node without a place in the round only a stop
/// request counts for the job.
void Coordinator::note_event(int id, NodeEvent event) {
  JobNode* const node = links_.find(id);
  if (node == nullptr) return;
  if (const auto* const asked = std::get_if<StopRequested>(&event))
    note_stop_request(*node, asked->signal);
  if (const auto* const reply = std::get_if<HeartbeatReply>(&event)) node->note_reply(*reply);
  if (const auto* const output = std::get_if<TerminalOutput>(&event)) debug_.note(*node, *output);
  if (std::holds_alternative<TerminalTaken>(event)) debug_.note_taken(*node);
  if (runner_ && node->is_in_round()) runner_->note(*node, std::move(event), Clock::now());
}

void Coordinator::note_stop_request(const JobNode& node, int signal) {
  const std::string where = node.link ? " at " + node.name() : "";
  job_.note_stop_request(node.id, where, signal, Clock::now());
}

/// Removes a lost node from the job, and from the round if it had a place there.
void Coordinator::declare_node_lost(int id, const std::string& how) {
  // One turn of the loop may report the same node as lost for several reasons. The first counts, as
  // it removes the node.
  const std::unique_ptr<JobNode> node = links_.remove(id);
  if (!node) return;
  debug_.note_node_lost(id);
  if (!node->is_in_round() || !runner_) {
    console_.warning(name_node(node->asked_node_rank, node->host) +
                     " has left while it waited for a round: " + how);
    return;
  }
  if (job_.round()->is_ending()) console_.error(node->name() + " is lost: " + how);
  job_.note_node_lost(node->node_rank, how, node->link->last_heard(), Clock::now());
}

asio::awaitable<void> Coordinator::end() {
  ask_timer_.cancel();
  co_await debug_.finish();
  job_.note_end(Clock::now());
  // Two verdicts: a record of 10,000 workers is too large to send to each of a thousand nodes.
  EndJob own = make_end(kOwnWorkers);
  own.first_join = store_.first_join();
  EndJob others = make_end(kTheirWorkers);
  co_await links_.close(std::move(own), std::move(others));
  store_.close();
}

JobView Coordinator::job_snapshot() const {
  JobView job = ddp::launcher::job_snapshot(spec_, host_, job_.verdict(), links_, job_.round());
  job.slowest = slowest_rank();
  return job;
}

std::optional<SlowRank> Coordinator::slowest_rank() const {
  return is_in_round() && runner_ ? runner_->slowest() : std::nullopt;
}

EndJob Coordinator::make_end(std::size_t most_workers) const {
  return describe_end(job_.verdict(), spec_, host_, most_workers);
}

EndJob Coordinator::fail_job_for_this_node(const std::string& failure, int exit_code) {
  debug_.give_back();
  job_.note_launcher_failed(failure, exit_code);
  job_.note_end(Clock::now());
  links_.send_to_others(make_end(kTheirWorkers));
  return make_end(kOwnWorkers);
}

}  // namespace ddp::launcher
