// What a node reports of a round when none of its processes lives there any more: how each worker
// ended, its last lines, and what the node knows of its death.
#pragma once

#include "launcher/os/post_mortem.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/worker_environment.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// The report of a worker as soon as it has ended. Precondition: the worker has ended.
WorkerReport first_report(const Worker& worker);

/// Describes the end of the group. Workers that could not be killed count as killed; `unkilled` is
/// left empty. Survivors are counted. Precondition: no other worker runs. Blocks: for reads of
/// kernel files.
GroupEnded describe_group_end(WorkerGroup& group,
                              const JobSpec& spec,
                              const RoundFacts& facts,
                              Baseline& before);

/// Whether `end` names an error file, which somebody may want to read.
bool names_error_files(const GroupEnded& end);

}  // namespace ddp::launcher
