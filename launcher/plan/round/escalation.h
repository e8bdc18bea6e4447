// How the workers of a node are ended: the first signal, the grace, SIGKILL, then giving up. Pure:
// run/worker_group sends the signals and reports the events.
//
//   event                            before SIGKILL       after SIGKILL
//   the deadline passes              SIGKILL              give up: the rest cannot be killed
//   node 0 commands SIGKILL          SIGKILL              -
//   the user's second stop request   SIGKILL              -
//   anything else                    -                    -
#pragma once

#include <chrono>

#include "launcher/plan/round/stop_requests.h"

namespace ddp::launcher {

class Escalation {
 public:
  using Time = StopRequests::Time;
  enum class Action { wait, kill, give_up };

  // After SIGKILL; what is left then cannot be killed.
  static constexpr std::chrono::seconds kKillWait{7};

  /// `signal`: the first signal. `earlier`: the user's stop requests so far; two of them: the first
  /// signal is SIGKILL.
  Escalation(int signal, std::chrono::milliseconds grace, const StopRequests& earlier = {});

  /// Returns the signal that the workers get now.
  int begin(Time now);
  [[nodiscard]] Time deadline() const { return deadline_; }

  Action note_deadline(Time now);
  Action note_kill_command(Time now) { return escalate(now); }
  /// A signal reached the launcher at `at`.
  Action note_signal(int signal, Time at, Time now);

 private:
  Action escalate(Time now);

  int signal_;
  std::chrono::milliseconds grace_;
  StopRequests requests_;
  bool is_killing_ = false;
  Time deadline_;
};

}  // namespace ddp::launcher
