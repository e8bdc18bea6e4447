// What a node tells of a round when no process of it lives there any more: how each of its workers
// ended, what it said last, what the node knows of its death.
#pragma once

#include "launcher/os/post_mortem.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/worker_environment.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// What is known of a worker as soon as it has ended. Precondition: it has.
WorkerReport first_report(const Worker& worker);

/// What could not be killed counts as killed, and is not named in it. Precondition: no worker runs,
/// but for those and the survivors, which are counted. Blocks: for looks at files of the
/// kernel.
GroupEnded describe_group_end(WorkerGroup& group,
                              const JobSpec& spec,
                              const RoundFacts& facts,
                              const Baseline& before);

/// Whether it names an error file that somebody may want to read.
bool names_error_files(const GroupEnded& end);

}  // namespace ddp::launcher
