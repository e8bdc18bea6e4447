// What the progress page of a worker says, as JSON: the same names for `ddp-launch status` and for
// /api/status. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "launcher/plan/hang/watchdog.h"

namespace ddp::launcher {

/// JSON knows no NaN: that, and infinity, is null.
boost::json::value number_or_null(double value);

/// Adds to `worker` what its page tells, null for what it does not tell yet; nothing where it has
/// none.
void add_progress(boost::json::object& worker, const WorkerSample& sample);

}  // namespace ddp::launcher
