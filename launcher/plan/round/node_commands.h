// What node 0 wants of this node, and how far the node has come with it: every command in every
// state. Pure: the agent asks it what is next, and tells it of each step.
//
// In a round (running):  StartRound is nonsense, AnnounceStop is passed on, EndRound is kept: the
//   workers are ended; EndJob is kept: the workers are ended, and the node leaves. With an end kept
//   the next line holds.
// While it ends (ending):  StartRound is nonsense, AnnounceStop is ignored, EndRound is ignored
//   but by SIGKILL, which ends the workers now; EndJob is kept: the node leaves afterwards.
// Between rounds (waiting):  StartRound is kept if it is newer, AnnounceStop and EndRound are
//   ignored, EndJob is kept: the node leaves. With a start kept already StartRound is nonsense,
//   EndRound is kept: the round ends as it begins, and EndJob forgets the start.
// With an EndJob kept:  nothing but SIGKILL changes anything.
//
// AnnounceStop and EndRound of another round are ignored; Heartbeat changes nothing. A StartRound
// beside a round, of an older one, or with another number of workers than this node has, is
// nonsense: no agent of node 0 sends it, and beginning a second round beside the first would let
// one rank live twice. Anyone who sends it knows nothing of this node, and is not listened to
// again.
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
  /// What a command means at once; what it means for later is kept.
  enum class Meaning {
    noted,
    ignored,
    announce,  // the workers are to be told why they will end
    kill,      // SIGKILL to those that are being ended
    nonsense,  // the sender is not to be listened to any more
  };

  /// `nproc`: what this node has said of itself. `grace`: of its workers, when node 0 ends the job
  /// in the middle of a round; at most a lease, as no heartbeat comes then and the guard kills
  /// them.
  NodeCommands(int nproc, std::chrono::milliseconds grace) : nproc_(nproc), grace_(grace) {}

  Meaning take(const NodeCommand& command);

  // --- The steps of the agent.

  /// There is something to begin, or to leave for.
  [[nodiscard]] bool has_next() const { return start_ || end_job_; }
  /// Takes the start that was kept. Precondition: has_next(), and no end_job().
  StartRound begin_round();
  /// Precondition: end_command().
  void begin_ending() { state_ = State::ending; }
  /// No process of the round is left.
  void note_ended();

  [[nodiscard]] State state() const { return state_; }
  /// The newest that has begun; -1: none.
  [[nodiscard]] int round() const { return round_; }
  /// Of that round; 0: none.
  [[nodiscard]] int world_size() const { return world_size_; }
  /// Why and how the round is to end, or is being ended.
  [[nodiscard]] const std::optional<EndRound>& end_command() const { return end_command_; }
  [[nodiscard]] const std::optional<EndJob>& end_job() const { return end_job_; }

  /// How end_command() ends the workers. The user's stop request that caused it counts as the
  /// first, and all later requests count too. Call it directly before ending the workers, as a
  /// later request changes it. Precondition: end_command().
  [[nodiscard]] Escalation escalation() const;

  // --- Stop requests of this node's user. Node 0 answers the first one by a command, in
  // milliseconds.

  /// Any signal that stops the job. True: it is the first request while the workers are being ended
  /// for another reason, so nothing follows from it yet.
  bool note_stop_request(int signal, Time at);
  /// The newest signal of this node's user that counts as a stop request (StopRequests::counts());
  /// 0: none.
  [[nodiscard]] int requested_signal() const { return requested_signal_; }
  /// The user has asked twice, and no command has come: node 0 does not listen, so this node ends
  /// its part by itself. What is being ended already ends without it.
  [[nodiscard]] bool is_stop_unanswered(Time now) const;

  static constexpr std::chrono::seconds kAnswerTimeout{1};

 private:
  Meaning take_start(const StartRound& start);
  Meaning take_end_round(const EndRound& command);
  Meaning take_end_job(const EndJob& end);

  int nproc_ = 1;
  std::chrono::milliseconds grace_;
  State state_ = State::waiting;
  int round_ = -1;
  int world_size_ = 0;
  std::optional<StartRound> start_;
  std::optional<EndRound> end_command_;
  std::optional<EndJob> end_job_;
  int requested_signal_ = 0;
  std::optional<Time> requested_at_;  // in any round
  // Since the round's end was commanded, or the last round was over; of a user's stop, from the
  // one that has led to it.
  StopRequests requests_;
};

}  // namespace ddp::launcher
