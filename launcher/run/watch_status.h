// `ddp-launch status --watch`: the same again every second, on a terminal in place.
#pragma once

#include <string>
#include <vector>

#include "common/node/identity.h"
#include "launcher/run/running_jobs.h"

namespace ddp::launcher {

/// Of the job that `name` names, which `jobs` is; empty: of all jobs that run at the time. Blocks:
/// until none of them runs. Errors: SystemError when stdout takes nothing.
void watch_status(std::vector<RunningJob> jobs,
                  const std::string& name,
                  const Environment& environment);

}  // namespace ddp::launcher
