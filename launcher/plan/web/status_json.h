// /api/status: the job as JSON, by the names that `ddp-launch status` has on the control socket.
// Pure.
#pragma once

#include <string>

#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

std::string status_json(const JobView& job);

}  // namespace ddp::launcher
