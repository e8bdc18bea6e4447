// A look at the whole job from node 0, for its page: what the coordinator, the links and the round
// know, as one value.
#pragma once

#include "launcher/plan/web/job_view.h"
#include "launcher/run/job_round.h"
#include "launcher/run/node_links.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// Fills in nodes, ranks and state of that round.
void look_at_round(JobView& job, const NodeLinks& links, const Round& round);

/// Adds the newest line of each worker of this node.
void add_last_lines(JobView& job, const WorkerGroup& group);

}  // namespace ddp::launcher
