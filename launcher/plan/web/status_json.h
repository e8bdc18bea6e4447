// /api/status: the job as JSON, with the names that `ddp-launch status` uses on the control socket.
// Pure.
#pragma once

#include <string>

#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

std::string status_json(const JobView& job);

}  // namespace ddp::launcher
