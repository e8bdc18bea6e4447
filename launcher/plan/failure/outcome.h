// The outcome of a round: it succeeded, or why not. A value; plan/failure/root_cause finds it.
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
  int exit_code = 0;                 // of the job: the root cause's, or that of a failure it caused
  bool operator==(const Failed&) const = default;
};
struct Stopped {
  int signal = 0;       // the user's; 0: a worker was asked, not the launcher
  int asked_rank = -1;  // that worker; if none says so, the first that left
  bool operator==(const Stopped&) const = default;
};
/// A node was lost, so what its workers did is not known.
struct NodeLost {
  int node_rank = 0;
  std::string host;                  // for people; node 0's with its address
  std::string how;                   // "silent for 5.1 s", "its agent has ended"
  std::vector<std::size_t> victims;  // failures of workers, in order of time
  bool operator==(const NodeLost&) const = default;
};
/// The launcher itself failed: the job could not begin, a node could not start its workers, or a
/// system call failed. No worker is to blame.
struct LauncherFailed {
  int code = 0;
  std::string text;
  bool operator==(const LauncherFailed&) const = default;
};
using Outcome = std::variant<Succeeded, Failed, Stopped, NodeLost, LauncherFailed>;

}  // namespace ddp::launcher
