// What a signal to the launcher means. Pure.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <vector>

namespace ddp::launcher {

enum class SignalMeaning : std::uint8_t {
  child_changed,
  ignored,    // SIGTSTP with several nodes: the others would take this one for lost
  stops,      // the job ends
  passed_on,  // sent on to the workers that handle it
};

/// The signals that the agent takes. To other nodes a stopped agent is a lost node, so with other
/// nodes a terminal must not stop it.
inline std::vector<int> signals_to_take(std::vector<int> listed_signals, bool has_other_nodes) {
  if (has_other_nodes) listed_signals.push_back(SIGTSTP);
  return listed_signals;
}

/// `listed_signals`: those that the user listed. `saves`: the workers write a checkpoint when the
/// job ends. Schedulers announce the end of a node by SIGUSR1, so a job that saves stops then.
inline SignalMeaning meaning_of(int signal, const std::vector<int>& listed_signals, bool saves) {
  if (signal == SIGCHLD) return SignalMeaning::child_changed;
  const bool is_listed = std::ranges::find(listed_signals, signal) != listed_signals.end();
  const bool announces = signal == SIGUSR1 && saves;
  if (is_listed || announces) return SignalMeaning::stops;
  return signal == SIGTSTP ? SignalMeaning::ignored : SignalMeaning::passed_on;
}

}  // namespace ddp::launcher
