// What a node tells of itself once a second, as its reply to node 0's heartbeat: a look at each of
// its workers, and their newest lines where somebody reads them.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/round/messages.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// What node 0 is told of this node's workers in `round`; `closely` as in probe_progress().
HeartbeatReply make_heartbeat_reply(const Heartbeat& heartbeat,
                                    int round,
                                    const WorkerGroup& group,
                                    bool closely);

/// Of each worker, oldest first, as many as a heartbeat has room for; empty: none.
std::vector<std::vector<std::string>> newest_lines(const WorkerGroup& group);

}  // namespace ddp::launcher
