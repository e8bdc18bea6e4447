// `ddp-launch status|stop|logs`: asks the agents of this user that run on this node.
#pragma once

#include <string>

#include "common/node/environment.h"
#include "launcher/plan/command_line/verbs.h"

namespace ddp::launcher {

/// Carries out `request`. If a job has several agents on this node, all are asked; to stop it, one.
/// Returns the text that is still to be printed. Blocks: --watch and --follow until the job ends.
/// Errors: UsageError that lists what runs, when JOB names no job or more than one, or when the job
/// has no such rank here; SystemError when the agent does not answer.
std::string ask_agents(VerbRequest request, const Environment& environment);

}  // namespace ddp::launcher
