#include "launcher/plan/round/node_commands.h"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <numeric>
#include <utility>

#include "launcher/plan/round/node_silence.h"

namespace ddp::launcher {

NodeCommands::Meaning NodeCommands::note(const NodeCommand& command) {
  if (const auto* const start = std::get_if<StartRound>(&command)) return note_start(*start);
  if (const auto* const end = std::get_if<EndRound>(&command)) return note_end_round(*end);
  if (const auto* const end = std::get_if<EndJob>(&command)) return note_end_job(*end);
  if (std::holds_alternative<TerminalInput>(command) ||
      std::holds_alternative<TerminalResized>(command) ||
      std::holds_alternative<TerminalShown>(command))
    return has_terminal_ ? Meaning::terminal : Meaning::nonsense;
  const auto* const announce = std::get_if<AnnounceStop>(&command);
  const bool is_now = announce != nullptr && state_ == State::running && !end_command_ && !end_job_;
  return is_now && announce->round == round_ ? Meaning::announce : Meaning::ignored;
}

NodeCommands::Meaning NodeCommands::note_start(const StartRound& start) {
  if (end_job_) return Meaning::ignored;
  const bool is_free = state_ == State::waiting && !start_;
  const auto own = static_cast<std::size_t>(start.node_rank);
  const bool is_ours = own < start.workers_of_node.size() && start.workers_of_node[own] == nproc_;
  const bool may_have_terminal =
      !start.terminal || (has_token_ && start.terminal->local_rank < nproc_);
  if (!is_free || !is_ours || !may_have_terminal || start.round <= round_) return Meaning::nonsense;
  has_terminal_ = has_terminal_ || start.terminal;
  start_ = start;
  return Meaning::noted;
}

NodeCommands::Meaning NodeCommands::note_end_round(const EndRound& command) {
  const bool is_of_next = start_ && command.round == start_->round;
  const bool is_of_current = state_ != State::waiting && command.round == round_;
  if (!is_of_next && !is_of_current) return Meaning::ignored;
  if (!end_command_ && !end_job_) {
    end_command_ = command;
    requests_ = StopRequests();
    if (command.reason == EndReason::user && requested_at_) requests_.note(*requested_at_);
    return Meaning::noted;
  }
  if (!end_command_ || command.signal != SIGKILL) return Meaning::ignored;
  end_command_->signal = SIGKILL;  // in case the agent has not begun to end them
  return Meaning::kill;
}

NodeCommands::Meaning NodeCommands::note_end_job(const EndJob& end) {
  if (end_job_) return Meaning::ignored;
  end_job_ = end;
  start_.reset();
  // If the round is already being ended, keep the requests so far. When node 0 is lost meanwhile,
  // plan/round/node_zero_lost makes this command, and the user's next request must count as the
  // second.
  if (state_ != State::running || end_command_) return Meaning::noted;
  requests_ = StopRequests();
  EndRound command;
  command.round = round_;
  command.signal = SIGTERM;
  command.grace = std::min<std::chrono::milliseconds>(grace_, kLease);
  command.reason = EndReason::job_ended;
  command.what = "node 0 has ended the job in the middle of the round";
  end_command_ = std::move(command);
  return Meaning::noted;
}

StartRound NodeCommands::begin_round() {
  assert(start_ && !end_job_ && state_ == State::waiting);
  state_ = State::running;
  round_ = start_->round;
  world_size_ = std::reduce(start_->workers_of_node.begin(), start_->workers_of_node.end());
  return *std::exchange(start_, std::nullopt);
}

void NodeCommands::note_ended() {
  state_ = State::waiting;
  end_command_.reset();
  requests_ = StopRequests();
}

Escalation NodeCommands::escalation() const {
  assert(end_command_);
  return Escalation(end_command_->signal, end_command_->grace, requests_);
}

bool NodeCommands::note_stop_request(int signal, Time at) {
  if (!StopRequests::counts(signal)) return false;
  requested_signal_ = signal;
  requested_at_ = at;
  const int number = requests_.note(at);
  return number == 1 && state_ == State::ending && end_command_->reason != EndReason::user;
}

bool NodeCommands::is_stop_unanswered(Time now) const {
  const std::optional<Time>& second = requests_.second();
  return second && state_ != State::ending && !end_command_ && !end_job_ &&
         now - *second >= kAnswerTimeout;
}

}  // namespace ddp::launcher
