// How a node ends its part of the job when node 0 does not end it. Pure: run/remote_node_zero
// collects the facts, and carries out the answer as if node 0 had commanded it. The first row that
// applies:
//
//   fact                                               reason           first signal    exit code
//   1 this agent did not run for so long that the      slept            SIGKILL         201
//     node is fenced
//   2 the connection to node 0's agent has ended       node_lost        SIGTERM, then   201
//                                                                       SIGKILL after the grace,
//                                                                       5 s at most
//   3 nothing came from node 0 for a lease: by our     node_lost        SIGKILL         201
//     own clock, or by the guard's (fenced)
//   4 the user has asked twice, and node 0 is heard    stop_unanswered  SIGKILL         128 + n
//     but sends no command
//
// Row 1 comes first since node 0 closes the connection of a node that it has lost. In row 2 the
// workers have time for a checkpoint: they still run, and no new round can begin before that time
// is over. The guard enforces that even during a longer stop, as no heartbeat renews its lease. In
// rows 1 and 3 a new round may begin elsewhere at any moment, and no rank must live twice.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/plan/failure/outcome.h"
#include "launcher/plan/round/messages.h"

namespace ddp::launcher {

/// What this node knows of node 0 and of itself.
struct NodeZeroFacts {
  std::string name;                           // of node 0: "node 0 (a)"
  std::string host;                           // node 0's, with address, for people: "a, 10.0.0.1"
  std::optional<std::string> why_slept;       // row 1: "this agent did not run for 7 s"
  std::optional<std::string> connection_end;  // row 2: why the connection ended
  std::chrono::nanoseconds silence;           // row 3: since node 0 was last heard
  std::string silence_hint;                   // a likely reason for the silence, for people
  bool is_fenced = false;                     // row 3: by the guard's clock
  bool is_stop_unanswered = false;            // row 4
  int requested_signal = 0;                   // row 4: the user's
};

struct EndWithoutNodeZero {
  EndRound command;              // the caller fills in its round
  int exit_code = 0;             // of this node
  std::string text;              // the reason, a sentence for people
  std::optional<NodeLost> lost;  // node 0; nothing: node 0 is not lost
};

/// Decides by the table. Nothing: node 0 still leads. `grace` is the job's.
std::optional<EndWithoutNodeZero> end_without_node_zero(const NodeZeroFacts& facts,
                                                        std::chrono::milliseconds grace);

}  // namespace ddp::launcher
