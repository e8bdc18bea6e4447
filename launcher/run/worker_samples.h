// Samples the workers of a group, for the watchdog, for `ddp-launch status`, and for the reply to
// node 0's heartbeat, once a second.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/hang/watchdog.h"
#include "launcher/plan/round/messages.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// One sample per worker, by rank; times count from group.began_at(). It costs two small reads of
/// /proc per living worker. `closely`: for a worker without a progress page, a dozen reads for each
/// process that it has started.
std::vector<WorkerSample> sample_workers(const WorkerGroup& group, bool closely);

/// A sample of the rank and the page alone.
WorkerSample sample_page(const Worker& worker);

/// The time between two samples, so that a hang is noticed at most a second late.
Clock::duration sample_pause(const std::optional<std::chrono::milliseconds>& hang_timeout);

/// The reply about this node's workers in `round`; `closely` as in sample_workers().
HeartbeatReply make_heartbeat_reply(const Heartbeat& heartbeat,
                                    int round,
                                    const WorkerGroup& group,
                                    bool closely);

/// The newest lines of each worker, oldest first, as many as a heartbeat has room for; empty: none.
std::vector<std::vector<std::string>> newest_lines(const WorkerGroup& group);

}  // namespace ddp::launcher
