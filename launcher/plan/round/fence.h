// Whether this node was fenced: its guard heard nothing of its agent, or of node 0, for a lease,
// and killed its workers. A worker that ends after that was killed by the guard. Pure.
//
//   the guard's lease    our agent did not run      what it is
//   is not over          -                          not fenced
//   is over              for less than kSlept       node 0 is silent (plan/round/node_zero_lost)
//   is over              for kSlept or more         we have slept: the others have lost us
//
// The agent checks once a second, so a gap of kSlept is not just a busy machine. A node that waits
// between two rounds is never called fenced: it has no workers, or survivors of the last round
// (--restart failed), and plan/round/node_zero_lost decides about these.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/text/units.h"

namespace ddp::launcher {

enum class FenceCause : std::uint8_t { none, node_zero_silent, we_slept };

inline constexpr std::chrono::seconds kSlept{2};

struct FenceFacts {
  bool has_other_nodes = false;
  bool is_in_round = false;    // a round runs here, or is being ended
  bool is_lease_over = false;  // by the guard's clock
  // Since the agent's last check; includes sleep of the machine.
  std::chrono::nanoseconds since_last_check{0};
};

constexpr FenceCause find_fence_cause(const FenceFacts& facts) {
  if (!facts.has_other_nodes || !facts.is_in_round || !facts.is_lease_over) return FenceCause::none;
  return facts.since_last_check >= kSlept ? FenceCause::we_slept : FenceCause::node_zero_silent;
}

/// Why a node that slept for so long was fenced; for people.
inline std::string describe_sleep(std::chrono::nanoseconds slept) {
  return "this agent did not run for " + format_seconds(slept) +
         ": the other nodes have given it up, and its guard has killed its workers (fenced)";
}

}  // namespace ddp::launcher
