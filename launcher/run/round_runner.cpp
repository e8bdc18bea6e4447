#include "launcher/run/round_runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "launcher/plan/start/placement.h"

namespace ddp::launcher {
namespace {

LiveLine::Rules make_live_rules(const JobSpec& spec, const Console& console, int round) {
  LiveLine::Rules rules;
  rules.has_other_nodes = spec.max_nodes > 1;
  rules.progress = spec.logs.progress;
  rules.has_terminal = console.has_terminal();
  if (spec.takes_job_file) rules.epochs = spec.job.integer("train.epochs");
  rules.round = round;
  return rules;
}

/// Whether the node's newest samples show no live worker.
bool is_group_gone(const JobNode& node) {
  return node.samples.size() == node.workers &&
         std::ranges::none_of(node.samples, &WorkerSample::alive);
}

}  // namespace

RoundRunner::Assignment RoundRunner::assign_ranks(NodeLinks& links, int number) {
  Assignment assignment;
  assignment.start.round = number;
  assignment.nodes = links.assign_node_ranks();
  std::vector<std::string> roles;
  for (const JobNode* const node : assignment.nodes) {
    assignment.start.workers_of_node.push_back(static_cast<int>(node->workers));
    const Hello& hello = links.table().find(node->id).hello;
    roles.push_back(hello.role);
    assignment.start.has_debugger = assignment.start.has_debugger || hello.has_debugger;
  }
  assignment.start.role_of_node = number_roles(roles);
  const std::vector<int>& counts = assignment.start.workers_of_node;
  assignment.world_size = std::reduce(counts.begin(), counts.end());
  return assignment;
}

std::vector<Round::Node> RoundRunner::describe_nodes(const NodeLinks& links,
                                                     const Assignment& assignment) {
  std::vector<Round::Node> described;
  for (const JobNode* const node : assignment.nodes) {
    const std::string address = node->link ? node->link->peer_address() : "";
    const bool has_debugger = links.table().find(node->id).hello.has_debugger;
    described.push_back(Round::Node{node->host, address, node->workers, has_debugger});
  }
  return described;
}

RoundRunner::RoundRunner(Parts parts, Round& round)
    : parts_(std::move(parts)),
      round_(round),
      live_(make_live_rules(parts_.spec, parts_.console, round.number())) {}

void RoundRunner::begin(Assignment assignment) {
  // Before any node is told to start, so that a quick node's workers do not use the store too
  // early.
  if (parts_.spec.max_nodes > 1) parts_.store.endpoint()->hold();
  for (const JobNode* const node : assignment.nodes) {
    assignment.start.node_rank = node->node_rank;
    assignment.start.terminal.reset();
    if (node->node_rank == assignment.debugged_node)
      assignment.start.terminal = assignment.terminal;
    parts_.links.send(*node, assignment.start);
  }
}

void RoundRunner::note_store_joins() {
  round_.note_store_joins(parts_.store.take_joins());
}

void RoundRunner::note(JobNode& node, NodeEvent event, Clock::time_point now) {
  if (auto* const reply = std::get_if<HeartbeatReply>(&event)) {
    if (reply->round == round_.number()) {
      node.samples = std::move(reply->samples);
      node.last_lines = std::move(reply->last_lines);
      if (round_.is_ending() && is_group_gone(node)) round_.note_group_gone(node.node_rank);
    }
    if (!node.link && !round_.is_ending()) look_at_workers(now);  // our own node sets the pace
  }
  const auto* const started = std::get_if<GroupStarted>(&event);
  if (started != nullptr && started->round == round_.number()) {
    node.begin = GroupBegin{started->begin_ns, now};
    // The answer to the first heartbeat was inexact, as it waited until the node's agent was made.
    parts_.links.send_heartbeat(node);
    round_.note_group_started(node.node_rank, *started);
  }
  if (auto* const ended = std::get_if<WorkerEnded>(&event)) {
    ended->worker.ending.at += node.offset_in_round(round_.began_at());
    round_.note_worker_ended(node.node_rank, *ended, now);
  }
  if (const auto* const failed = std::get_if<AgentFailed>(&event))
    round_.note_agent_failed(node.node_rank, *failed, now);
  if (auto* const ended = std::get_if<GroupEnded>(&event)) {
    for (WorkerReport& report : ended->workers)
      report.ending.at += node.offset_in_round(round_.began_at());
    round_.note_group_ended(node.node_rank, *ended, now);
  }
}

/// Repeats until there are none, as an action may lead to further ones.
void RoundRunner::carry_out() {
  round_.note_time(Clock::now());
  for (std::vector<Round::Action> actions = round_.take_actions(); !actions.empty();
       actions = round_.take_actions()) {
    for (const Round::Action& action : actions)
      carry_out(action);
  }
}

void RoundRunner::carry_out(const Round::Action& action) {
  if (const auto* const command = std::get_if<Round::CommandNodes>(&action)) {
    // Show no progress from now on, as ranks that are being ended make none.
    const bool ends = std::holds_alternative<EndRound>(command->command);
    if (ends) parts_.links.show({});
    parts_.links.send_to_round(command->command);
  }
  if (std::holds_alternative<Round::ReleaseStore>(action)) {
    parts_.store.expect(round_.workers());
    if (parts_.spec.max_nodes > 1) parts_.store.endpoint()->release();
  }
  if (const auto* const late = std::get_if<Round::DeclareNodeLost>(&action)) {
    const JobNode* const node = parts_.links.at(late->node_rank);
    if (node != nullptr) parts_.declare_node_lost(node->id, late->how);
  }
  if (const auto* const broken = std::get_if<Round::DeprioritizeNode>(&action)) {
    JobNode* const node = parts_.links.at(broken->node_rank);
    if (node != nullptr) parts_.links.deprioritize(*node, broken->gpu_error);
  }
  if (const auto* const warn = std::get_if<Round::Warn>(&action))
    parts_.console.warning(warn->text);
}

/// Notes all workers of all nodes, as their newest heartbeats show them.
void RoundRunner::look_at_workers(Clock::time_point now) {
  if (round_.looks_for_hangs()) parts_.store.remind_of_missing(round_.workers());
  std::vector<WorkerSample> samples(round_.workers().size());
  for (std::size_t rank = 0; rank < samples.size(); ++rank)
    samples[rank].rank = static_cast<int>(rank);
  for (const JobNode* const node : parts_.links.in_round()) {
    for (const WorkerSample& sample : node->samples) {
      // Ignore samples of ranks that are not the node's own.
      if (!round_.runs_on(sample.rank, node->node_rank)) continue;
      const auto rank = static_cast<std::size_t>(sample.rank);
      samples[rank] = sample;
      samples[rank].ended_at += node->offset_in_round(round_.began_at());
    }
  }
  parts_.store.note_clients(samples, round_.began_at());
  look_for_slow_rank(samples, now);
  if (parts_.spec.max_nodes > 1 || parts_.console.has_live_line()) {
    const auto elapsed = now - parts_.job_began_at;
    const std::vector<RankProgress> ranks(samples.begin(), samples.end());
    const std::string slow = slowest() ? short_text(*slowest()) : "";
    parts_.links.show(live_.describe(now - round_.began_at(), elapsed, ranks, slow));
  }
  round_.note_samples(std::move(samples), now);
}

void RoundRunner::look_for_slow_rank(std::span<const WorkerSample> samples, Clock::time_point now) {
  if (!round_.looks_for_hangs()) return;  // a rank stands in a debugger
  slow_ranks_.note(now - round_.began_at(), samples);
  const std::optional<SlowRank> slow = slow_ranks_.take_warning();
  if (slow) parts_.console.warning(to_text(*slow));
}

}  // namespace ddp::launcher
