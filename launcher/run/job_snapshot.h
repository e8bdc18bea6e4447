// A snapshot of the whole job for node 0's web page: what the coordinator, the links and the round
// know, as one value.
#pragma once

#include <string>

#include "launcher/plan/round/verdict.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/web/job_view.h"
#include "launcher/run/node_links.h"
#include "launcher/run/round_runner.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// `round`: the newest; null: none has begun. add_own_node() fills in the rest.
JobView job_snapshot(const JobSpec& spec,
                     const std::string& host,
                     const Verdict& so_far,
                     const NodeLinks& links,
                     const Round* round);

/// Adds what this node knows of itself, and the newest lines of its workers.
void add_own_node(JobView& job, const RoundFacts& facts, const WorkerGroup& group);

}  // namespace ddp::launcher
