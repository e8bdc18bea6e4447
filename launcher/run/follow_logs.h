// `ddp-launch logs -f`: shows what the ranks of a job print from now on. If a stream has a log
// file, the file is read: no line is lost or repeated. If it has none, its last lines are polled
// over the control socket (plan/status/tail_follower): no line is repeated, missed lines are
// counted, and lines between the last answer and the job's end are not shown.
#pragma once

#include <string>
#include <vector>

#include "launcher/run/running_jobs.h"

namespace ddp::launcher {

/// Prints the last lines of the agents' ranks, or of one rank, and then each new line. Blocks:
/// until none of the agents answers any more. Errors: SystemError when stdout cannot be written.
void follow_logs(const std::vector<RunningJob>& jobs, const std::string& rank);

}  // namespace ddp::launcher
