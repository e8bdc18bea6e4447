// /api/status: the job as JSON, with the names that `ddp-launch status` uses on the control socket.
// Pure.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "launcher/plan/hang/watchdog.h"
#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

std::string status_json(const JobView& job);

/// Adds what the worker's progress page tells to `worker`, for both; null: not known yet. Adds
/// nothing if there is no page.
void add_progress(boost::json::object& worker, const WorkerSample& sample);

/// Adds "slowest_rank" to a job, if one stands out.
void add_slowest(boost::json::object& job, const std::optional<SlowRank>& slowest);

}  // namespace ddp::launcher
