// `ddp-launch logs -f`: what the ranks of a job print, from now on. Where a stream has a log file
// that is read: nothing is lost, nothing comes twice. Where it has none, its last lines are asked
// for over the control socket (plan/status/tail_follower): no line twice, missed ones
// counted, and those of the time between the last answer and the job's end are not seen.
#pragma once

#include <string>
#include <vector>

#include "launcher/run/running_jobs.h"

namespace ddp::launcher {

/// Prints the last lines of the agents' ranks, or of one rank, and then each new one. Blocks: until
/// no agent of them answers any more. Errors: SystemError when stdout takes nothing.
void follow_logs(const std::vector<RunningJob>& jobs, const std::string& rank);

}  // namespace ddp::launcher
