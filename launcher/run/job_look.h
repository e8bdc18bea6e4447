// A look at the whole job from node 0, for its page: what the coordinator, the links and the round
// know, as one value.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/web/job_view.h"
#include "launcher/run/job_round.h"
#include "launcher/run/node_links.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// Fills in nodes, ranks and state of that round.
void look_at_round(JobView& job, const NodeLinks& links, const Round& round);

/// The newest lines of each worker, oldest first, as many as a heartbeat has room for; empty: none.
std::vector<std::vector<std::string>> newest_lines(const WorkerGroup& group);

/// Adds what this node knows of itself, and the newest lines of its workers.
void look_at_own_node(JobView& job, const RoundFacts& facts, const WorkerGroup& group);

}  // namespace ddp::launcher
