// What a signal to the launcher means. Pure.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <vector>

namespace ddp::launcher {

enum class SignalMeaning : std::uint8_t {
  child_changed,
  ignored,    // SIGTSTP of a job of several nodes: the others would take this one for lost
  stops,      // the job is to end
  passed_on,  // to the workers that handle it
};

/// Those that the agent takes. A stopped agent is a lost node to the others, so where there are
/// some, a terminal must not stop it.
inline std::vector<int> signals_to_take(std::vector<int> listed_signals, bool has_other_nodes) {
  if (has_other_nodes) listed_signals.push_back(SIGTSTP);
  return listed_signals;
}

/// `listed_signals`: that the user has listed; `saves`: workers write a checkpoint when they are
/// told that the job ends. Schedulers announce the end of a node by SIGUSR1: anyone who saves is to
/// save.
inline SignalMeaning meaning_of(int signal, const std::vector<int>& listed_signals, bool saves) {
  if (signal == SIGCHLD) return SignalMeaning::child_changed;
  const bool is_listed =
      std::find(listed_signals.begin(), listed_signals.end(), signal) != listed_signals.end();
  const bool announces = signal == SIGUSR1 && saves;
  if (is_listed || announces) return SignalMeaning::stops;
  return signal == SIGTSTP ? SignalMeaning::ignored : SignalMeaning::passed_on;
}

}  // namespace ddp::launcher
