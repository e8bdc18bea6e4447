#include "launcher/plan/round/job.h"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <utility>

#include "launcher/plan/round/node_silence.h"
#include "launcher/plan/round/restart_line.h"

namespace ddp::launcher {

Job::Config Job::make_config(const JobSpec& spec) {
  Config config;
  config.round = Round::make_config(spec);
  config.restarts = {spec.max_restarts, spec.died_within, spec.lost_nodes_are_free};
  config.join_timeout = spec.join_timeout;
  config.last_call = spec.last_call;
  config.replace_timeout = spec.replace_timeout;
  if (spec.problem_code != 0) config.own_problem = Refusal{spec.problem_code, spec.problem};
  return config;
}

Job::Job(Config config, const NodeTable& nodes, Time begin)
    : config_(std::move(config)), nodes_(nodes), begin_(begin), policy_(config_.restarts) {
  if (config_.own_problem) {
    state_ = State::refusing;
    waits_until_ = begin + kRefuseFor;
    refusal_ = config_.own_problem;
    unheard_ = nodes.own().max_nodes - 1;
  } else {
    begin_gathering(config_.join_timeout, begin);
  }
}

// --- Events.

void Job::note_answered(const Hello& hello, const std::optional<Refusal>& refusal) {
  if (!refusal || hello.is_question) return;
  if (ends_job(hello, *refusal)) refusal_ = refusal;
  const bool has_heard = config_.own_problem && refusal->code == config_.own_problem->code;
  if (state_ == State::refusing && has_heard) --unheard_;
}

void Job::note_other_node_zero(const Refusal& refusal) {
  refusal_ = refusal;
}

void Job::note_stop_request(int id, const std::string& where, int signal, Time now) {
  if (signal == SIGKILL || signal == SIGSTOP) return;  // never sent by our agents
  requested_signal_ = signal;
  if (round_) round_->note_stop_request(id, where, signal, now);
}

void Job::note_own_node_slept(const std::string& why, Time now) {
  assert(round_);
  round_->note_own_node_slept(why, now);
}

void Job::note_node_lost(int node_rank, const std::string& how, Time heard, Time now) {
  assert(round_);
  replace_not_before_ = std::max(replace_not_before_, heard + kReplaceAfter);
  round_->note_node_lost(node_rank, how, heard, now);
}

void Job::note_launcher_failed(const std::string& text, int exit_code) {
  verdict_.note_launcher_failed(text, exit_code);
  state_ = State::over;
}

void Job::note_end(Time now) {
  verdict_.note_end(now - begin_);
}

// --- Steps.

Job::Action Job::advance(Time now) {
  if (state_ == State::refusing && (unheard_ <= 0 || requested_signal_ || now >= waits_until_))
    begin_gathering(config_.join_timeout, now);
  if (state_ == State::running && round_->is_over()) conclude_round(now);
  if (state_ == State::pausing &&
      (now >= waits_until_ || requested_signal_ || !presence().can_go_on()))
    begin_gathering(config_.replace_timeout.value_or(std::chrono::milliseconds(0)), now);
  if (state_ == State::gathering) return advance_gathering(now);
  return state_ == State::over ? Action::end : Action::wait;
}

void Job::begin_gathering(std::chrono::milliseconds limit, Time now) {
  state_ = State::gathering;
  waited_ = limit;
  wait_.emplace(NodeWait::Config{!round_, limit, config_.last_call}, now);
}

Job::Action Job::advance_gathering(Time now) {
  const bool is_reminder = wait_->take_reminder(now);
  const NodeWait::Decision decision = is_called_off()
                                          ? NodeWait::Decision::give_up
                                          : wait_->advance(presence(), replace_not_before_, now);
  if (decision == NodeWait::Decision::begin) return Action::begin_round;
  if (decision == NodeWait::Decision::give_up) {
    give_up();
    return Action::end;
  }
  if (is_reminder) add_line(log::Level::info, nodes_.who_is_missing());
  return Action::wait;
}

std::optional<Job::Time> Job::deadline() const {
  if (state_ == State::gathering) return wait_->deadline();
  if (state_ == State::running) return round_->deadline();
  return state_ == State::over ? std::nullopt : std::optional(waits_until_);
}

Round& Job::begin_round(std::vector<Round::Node> nodes, Time now) {
  assert(state_ == State::gathering);
  Round::Config config = config_.round;
  config.number = policy_.next_round();
  config.has_restarts = policy_.remaining() > 0;
  round_.emplace(config, std::move(nodes), now);
  verdict_.note_begun(config.number, static_cast<int>(round_->workers().size()));
  state_ = State::running;
  return *round_;
}

/// Here no process of this round lives on a node that is heard, except survivors, and processes
/// that the report names as unkilled. The root cause is known and does not change.
void Job::conclude_round(Time now) {
  const NodeWait::Presence nodes = presence();
  const RoundResult result = round_->conclude(now, nodes.can_go_on());
  verdict_.note_result(result);
  const RestartDecision decision = policy_.decide(result);
  if (!decision.restart) {
    verdict_.note_last_round(decision);
    if (!decision.reason.empty())
      add_line(log::Level::info, "no further round: " + decision.reason + ".");
    state_ = State::over;
    return;
  }
  state_ = State::pausing;
  // advance() cuts the pause short after the user's stop, or with too few nodes.
  waits_until_ = now + decision.pause;
  const std::string& earlier = verdict_.note_restart();
  if (requested_signal_) return;  // no round follows
  RestartFacts facts;
  facts.next_round = policy_.next_round();
  facts.world_size = verdict().world_size;
  facts.nodes = nodes;
  facts.replace_timeout = config_.replace_timeout.value_or(std::chrono::milliseconds(0));
  facts.until_replaceable = replace_not_before_ - now;
  if (!decision.is_free) facts.restarts_left = policy_.remaining();
  add_line(log::Level::error, earlier + "; " + describe_restart(result, decision, facts));
}

/// Ends the job while it waits for the nodes of a round.
void Job::give_up() {
  verdict_.note_not_begun({requested_signal_,
                           refusal_,
                           nodes_.who_is_missing(),
                           waited_,
                           round_ ? round_->later_lost_node() : std::nullopt});
  state_ = State::over;
}

/// Whether no round may begin any more: the user has stopped the job, or a refusal before the first
/// round ends it.
bool Job::is_called_off() const {
  return requested_signal_ || (!round_ && refusal_);
}

NodeWait::Presence Job::presence() const {
  return NodeWait::presence_of(nodes_, round(), config_.replace_timeout.has_value());
}

std::vector<Job::Line> Job::take_lines() {
  return std::exchange(lines_, {});
}

}  // namespace ddp::launcher
