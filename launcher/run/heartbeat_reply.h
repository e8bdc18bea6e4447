// A node's reply to node 0's heartbeat, once a second: a sample of each worker, and the workers'
// newest lines if somebody reads them.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/round/messages.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// The reply about this node's workers in `round`; `closely` as in probe_progress().
HeartbeatReply make_heartbeat_reply(const Heartbeat& heartbeat,
                                    int round,
                                    const WorkerGroup& group,
                                    bool closely);

/// The newest lines of each worker, oldest first, as many as a heartbeat has room for; empty: none.
std::vector<std::vector<std::string>> newest_lines(const WorkerGroup& group);

}  // namespace ddp::launcher
