// What came out of a round: it succeeded, or why not. A value; plan/round/root_cause finds it.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace ddp::launcher {

struct Succeeded {
  bool operator==(const Succeeded&) const = default;
};
struct Failed {
  std::size_t root_cause = 0;        // index into the endings
  std::vector<std::size_t> victims;  // in order of time
  int exit_code = 0;                 // of the job: the root cause's own, or of what it led to
  bool operator==(const Failed&) const = default;
};
struct Stopped {
  int signal = 0;       // that the user sent; 0 when one worker was asked, not the launcher
  int asked_rank = -1;  // that one; where none says it, the first that left
  bool operator==(const Stopped&) const = default;
};
/// Nobody knows what the workers of that node did.
struct NodeLost {
  int node_rank = 0;
  std::string host;                  // for people, with its address where the name is node 0's
  std::string how;                   // "silent for 5.1 s", "its agent has ended"
  std::vector<std::size_t> victims;  // failures of other nodes' workers, in order of time
  bool operator==(const NodeLost&) const = default;
};
/// The launcher's own failure: the job could not begin, a node could not start its workers, or the
/// system refused something. No worker is to blame.
struct LauncherFailed {
  int code = 0;
  std::string text;
  bool operator==(const LauncherFailed&) const = default;
};
using Outcome = std::variant<Succeeded, Failed, Stopped, NodeLost, LauncherFailed>;

}  // namespace ddp::launcher
