// `ddp-launch doctor`: the agents of a job meet as for a job, but start nothing: each tells what
// its node is, tries whether it reaches all others, and shows what node 0 makes of it.
#pragma once

#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// How long node 0 waits for the others, unless the user wants less; then it looks at who is there.
inline constexpr std::chrono::seconds kDoctorPatience{120};

/// Blocks: until the table is printed. Returns 0, or 1 when there is a problem. Errors:
/// SystemError, 202 when this node cannot join, 203 when it is refused.
int run_doctor(JobSpec spec);

}  // namespace ddp::launcher
