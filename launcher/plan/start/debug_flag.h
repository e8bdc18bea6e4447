// --debug: which rank has the terminal in which ddp-launch was started. Pure.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// `text`: "3" or "1:0". It is a rank of this node, or, on node 0, one of another node, which
/// find_debugged() finds once the nodes have joined. Precondition: the spec's nodes and workers are
/// set.
void take_debug(const std::string& text, JobSpec& spec, std::vector<std::string>& problems);

/// A node of a round.
struct DebugNode {
  std::optional<int> asked_node_rank;
  int workers = 0;
  bool has_debugger = false;  // its agent gives its own terminal to a worker
};
struct DebuggedRank {
  int node_rank = 0;
  int local_rank = 0;
  bool operator==(const DebuggedRank&) const = default;
};

/// The worker of another node that is to have our terminal, or why none can. A node rank is that
/// with which the agent was started, if it was; nodes of a round may have moved up.
std::variant<DebuggedRank, std::string> find_debugged(const JobSpec::RankElsewhere& wanted,
                                                      const std::vector<DebugNode>& nodes);

}  // namespace ddp::launcher
