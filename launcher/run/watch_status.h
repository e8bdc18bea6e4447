// `ddp-launch status --watch`: the same again every second, on a terminal in place.
#pragma once

#include <string>
#include <vector>

#include "common/node/identity.h"
#include "launcher/run/running_jobs.h"

namespace ddp::launcher {

/// Shows `jobs`, the agents of the job that `name` names; with an empty name, all jobs that run at
/// each look. Blocks: until none of them runs. Errors: SystemError when stdout takes nothing.
void watch_status(std::vector<RunningJob> jobs,
                  const std::string& name,
                  const Environment& environment);

}  // namespace ddp::launcher
