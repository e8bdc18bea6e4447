// A worker's progress page as JSON, with the same names for `ddp-launch status` and /api/status.
// Pure.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "launcher/plan/hang/watchdog.h"

namespace ddp::launcher {

/// The number, or null for NaN and infinity, which JSON does not have.
boost::json::value number_or_null(double value);

/// Adds the fields of the page to `worker`; null: not known yet. Adds nothing if there is no page.
void add_progress(boost::json::object& worker, const WorkerSample& sample);

}  // namespace ddp::launcher
