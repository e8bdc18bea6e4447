// The lines that a node's agent prints about its own part in a round: what supervises it, what it
// runs and why it stops. plan/round/end_round_line has the texts about the end.
#pragma once

#include <sys/types.h>

#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"
#include "launcher/run/node_workers.h"

namespace ddp::launcher {

/// Prints how the job is supervised, for debugging. `guard`: its pid.
void print_supervision(Console& console, NodeWorkers& workers, pid_t guard);

/// With --debug: prints which rank has the terminal, and where the output of the others is.
void print_debugged(Console& console, const JobSpec& spec, const RoundFacts& facts);

/// Prints what this node runs, so that no node of a job looks dead.
void print_node(Console& console,
                const JobSpec& spec,
                const RoundFacts& facts,
                const StartRound& start);

/// Prints why the workers that still run are being ended; at a hang, where each of them is. If a
/// worker has refused the job before its first step, or one has a terminal (--debug), the line is
/// only for debugging: the report says so a moment later. `is_requested_here`: as in
/// describe_end_round().
void print_end_round(Console& console,
                     const JobSpec& spec,
                     const RoundFacts& facts,
                     const EndRound& command,
                     const WorkerGroup& group,
                     bool is_requested_here);

}  // namespace ddp::launcher
