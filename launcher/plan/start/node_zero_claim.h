// Whether this agent claims to be node 0, before it knows of any other agent. Pure. The first row
// that applies:
//
//   known of this agent                                claim       what run/rendezvous does
//   1 one node                                         alone       neither asks nor listens: its
//                                                                  store opens a port of its own
//   2 node rank 1 or more; is_host=false               none        joins
//   3 node rank 0; is_host=true                        sure        asks, then listens: a taken port
//                                                                  is an error
//   4 the master address is one of this node's         first_come  asks, then listens; if the port
//                                                                  is taken, joins the agent that
//                                                                  has it
//   5 the master address is another node's             none        joins
//
// "asks": if an agent answers, that one is node 0, and this one joins it.
#pragma once

#include <cstdint>
#include <optional>

namespace ddp::launcher {

enum class NodeZeroClaim : std::uint8_t { alone, none, sure, first_come };

/// What is known of this agent.
struct ClaimFacts {
  int max_nodes = 1;
  std::optional<int> node_rank;  // that was asked for
  std::optional<bool> is_host;   // --rdzv-conf is_host
  bool owns_master_address = false;
};

constexpr NodeZeroClaim claim_node_zero(const ClaimFacts& facts) {
  if (facts.max_nodes == 1) return NodeZeroClaim::alone;
  if (facts.node_rank.value_or(0) > 0 || facts.is_host == false) return NodeZeroClaim::none;
  if (facts.node_rank == 0 || facts.is_host == true) return NodeZeroClaim::sure;
  return facts.owns_master_address ? NodeZeroClaim::first_come : NodeZeroClaim::none;
}

}  // namespace ddp::launcher
