// `ddp-launch status|stop|logs [RUN]`: asks the agents of this user that run on this node.
#pragma once

#include <string>

#include "common/identity.h"
#include "launcher/plan/options.h"

namespace ddp::launcher {

/// Carries out options.command. RUN is the beginning (4 characters or more) of a job's random id,
/// the id that the user gave it, the name of its run directory, or the agent's pid; it may be left
/// out when one job runs. Of a job that has several agents on this node all are asked, but one is
/// enough to stop it. Returns what is to be printed. Errors: UsageError that lists what runs, when
/// RUN is none of it or more than one job; SystemError when the agent does not answer.
std::string ask_agents(const Options& options, const Environment& environment);

}  // namespace ddp::launcher
