// `ddp-launch doctor`: the agents meet as for a job, but start nothing. Each describes its node,
// tests whether it reaches all others, and prints node 0's diagnosis.
#pragma once

#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// How long node 0 waits for the others, unless the user sets less. Then it checks the nodes that
/// are there.
inline constexpr std::chrono::seconds kDoctorPatience{120};

/// Blocks: until the table is printed. Returns 0, or 1 when there is a problem. Errors:
/// SystemError, 202 when this node cannot join, 203 when it is refused.
int run_doctor(JobSpec spec);

}  // namespace ddp::launcher
