// The lines that a node's agent prints about its own part in a round: what supervises it, what it
// runs and why it stops. Their words are made in common/progress/live_line and
// plan/round/end_round_line.
#pragma once

#include <sys/types.h>

#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"
#include "launcher/run/node_workers.h"

namespace ddp::launcher {

/// How the job is supervised, for who debugs it. `guard`: its pid.
void print_supervision(Console& console, NodeWorkers& workers, pid_t guard);

/// What this node runs: no node of a job looks dead.
void print_node(Console& console,
                const JobSpec& spec,
                const RoundFacts& facts,
                const StartRound& start);

/// Why the workers that still run are being ended; at a hang, where each of them is. A job that one
/// has refused before its first step is told of by the report alone, a moment later.
/// `is_requested_here`: as of describe_end_round().
void print_end_round(Console& console,
                     const JobSpec& spec,
                     const EndRound& command,
                     const WorkerGroup& group,
                     bool is_requested_here);

}  // namespace ddp::launcher
