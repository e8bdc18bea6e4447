#include "launcher/plan/round/escalation.h"

#include <csignal>

namespace ddp::launcher {

Escalation::Escalation(int signal, std::chrono::milliseconds grace, const StopRequests& earlier)
    : signal_(signal), grace_(grace), requests_(earlier) {}

int Escalation::begin(Time now) {
  deadline_ = now + grace_;
  const bool is_killing = signal_ == SIGKILL || requests_.count() >= 2;
  if (is_killing) escalate(now);
  return is_killing ? SIGKILL : signal_;
}

Escalation::Action Escalation::note_deadline(Time now) {
  return is_killing_ ? Action::give_up : escalate(now);
}

Escalation::Action Escalation::note_signal(int signal, Time at, Time now) {
  const bool is_second = StopRequests::counts(signal) && requests_.note(at) >= 2;
  return is_second ? escalate(now) : Action::wait;
}

Escalation::Action Escalation::escalate(Time now) {
  if (is_killing_) return Action::wait;  // SIGKILL is sent once
  is_killing_ = true;
  deadline_ = now + kKillWait;
  return Action::kill;
}

}  // namespace ddp::launcher
