// Which commands of node 0 this node has to carry out, and how far it is: every command in every
// state. Pure: the agent asks for the next step, and reports each step that it takes.
//
// In a round (running):  StartRound is nonsense, AnnounceStop is passed on, EndRound is kept: the
//   workers are ended; EndJob is kept: the workers are ended, and the node leaves. Once an end is
//   kept the next paragraph applies.
// While the round ends (ending):  StartRound is nonsense, AnnounceStop is ignored, EndRound is
//   ignored unless it is SIGKILL, which kills the workers now; EndJob is kept: the node leaves
//   afterwards.
// Between rounds (waiting):  StartRound is kept if it is newer, AnnounceStop and EndRound are
//   ignored, EndJob is kept: the node leaves. If a StartRound is already kept, another one is
//   nonsense, EndRound is kept: the round ends as it begins, and EndJob drops the StartRound.
// With an EndJob kept:  nothing but SIGKILL changes anything.
//
// AnnounceStop and EndRound of another round are ignored; Heartbeat changes nothing. A StartRound
// during a round, of an older round, or with another number of workers than this node has, is
// nonsense: node 0's agent never sends it, and a second round beside the first would let one rank
// live twice. The agent stops listening to its sender.
//
// With node 0's terminal:  a StartRound that has it for a rank that is not here, or in a job
// without a token, is nonsense. After one that has it TerminalInput, TerminalResized and
// TerminalShown are passed on in every state; before it they are nonsense.
#pragma once

#include <chrono>
#include <optional>

#include "launcher/plan/round/escalation.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/stop_requests.h"

namespace ddp::launcher {

class NodeCommands {
 public:
  using Time = StopRequests::Time;
  enum class State { waiting, running, ending };
  /// What to do at once about a command. What it asks for later is kept.
  enum class Meaning {
    noted,
    ignored,
    announce,  // tell the workers why they will end
    kill,      // send SIGKILL to the workers that are being ended
    terminal,  // pass it to the terminal of the worker that has node 0's
    nonsense,  // stop listening to the sender
  };

  /// `nproc`: workers of this node, as it announced. `grace`: the workers' grace when node 0 ends
  /// the job in the middle of a round; at most a lease counts, as without heartbeats the guard
  /// kills them then.
  /// `has_token`: the job has one, so that a worker of this node may have node 0's terminal.
  NodeCommands(int nproc, std::chrono::milliseconds grace, bool has_token = false)
      : nproc_(nproc), grace_(grace), has_token_(has_token) {}

  Meaning note(const NodeCommand& command);

  // --- The steps of the agent.

  /// Whether there is a round to begin, or a job to leave.
  [[nodiscard]] bool has_next() const { return start_ || end_job_; }
  /// Takes the kept StartRound. Precondition: has_next(), and no end_job().
  StartRound begin_round();
  /// Precondition: end_command().
  void begin_ending() { state_ = State::ending; }
  /// No process of the round is left.
  void note_ended();

  [[nodiscard]] State state() const { return state_; }
  /// The newest round that has begun; -1: none.
  [[nodiscard]] int round() const { return round_; }
  /// The world size of that round; 0: none.
  [[nodiscard]] int world_size() const { return world_size_; }
  /// Why and how the round is to end, or is being ended.
  [[nodiscard]] const std::optional<EndRound>& end_command() const { return end_command_; }
  [[nodiscard]] const std::optional<EndJob>& end_job() const { return end_job_; }

  /// By which signals, and when, end_command() ends the workers. If a stop request of the user
  /// caused the command, that is the first request, and the next one is the second. Call it
  /// directly before the workers are ended, as a later request changes it. Precondition:
  /// end_command().
  [[nodiscard]] Escalation escalation() const;

  // --- Stop requests of this node's user. Node 0 answers the first one by a command, in
  // milliseconds.

  /// Takes any signal that stops the job. True: it is the first request while the workers are ended
  /// for another reason, so it has no effect yet.
  bool note_stop_request(int signal, Time at);
  /// The newest signal of this node's user that counts as a stop request (StopRequests::counts());
  /// 0: none.
  [[nodiscard]] int requested_signal() const { return requested_signal_; }
  /// Whether the user asked twice and node 0 sent no command within kAnswerTimeout. Then this node
  /// ends its part by itself. False while workers are being ended anyway.
  [[nodiscard]] bool is_stop_unanswered(Time now) const;

  static constexpr std::chrono::seconds kAnswerTimeout{1};

 private:
  Meaning note_start(const StartRound& start);
  Meaning note_end_round(const EndRound& command);
  Meaning note_end_job(const EndJob& end);

  int nproc_ = 1;
  std::chrono::milliseconds grace_;
  bool has_token_ = false;
  bool has_terminal_ = false;  // node 0's, in a StartRound so far
  State state_ = State::waiting;
  int round_ = -1;
  int world_size_ = 0;
  std::optional<StartRound> start_;
  std::optional<EndRound> end_command_;
  std::optional<EndJob> end_job_;
  int requested_signal_ = 0;
  std::optional<Time> requested_at_;  // the newest, in any round
  // Requests since the round's end was commanded, or since the last round was over. If the user's
  // stop led to that command, its request is included.
  StopRequests requests_;
};

}  // namespace ddp::launcher
