// --dry-run: what would be started, as text. Values that are chosen only at the start (port, run
// id) are shown as such.
#pragma once

#include <string>

#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

std::string describe_plan(const JobSpec& spec);

}  // namespace ddp::launcher
