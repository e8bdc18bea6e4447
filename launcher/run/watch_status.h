// `ddp-launch status --watch`: prints the status every second, on a terminal in place.
#pragma once

#include <string>
#include <vector>

#include "common/node/identity.h"
#include "launcher/run/running_jobs.h"

namespace ddp::launcher {

/// Shows `jobs`, the agents of the job that `name` names; with an empty name, all jobs that run
/// then. Blocks: until none of them runs. Errors: SystemError when stdout cannot be written.
void watch_status(std::vector<RunningJob> jobs,
                  const std::string& name,
                  const Environment& environment);

}  // namespace ddp::launcher
