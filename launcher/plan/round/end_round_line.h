// The lines that a node prints while it ends its workers. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/plan/round/messages.h"

namespace ddp::launcher {

/// "1 worker", "3 workers".
std::string count_workers(std::size_t workers);

/// "rank 3 (pid 17) has failed: exit code 7; stopping the other 3 workers." `workers`: those of
/// this node that still run. `is_requested_here`: this node's user has sent the first SIGINT or
/// SIGTERM, so one more kills them.
std::string describe_end_round(const EndRound& command,
                               std::size_t workers,
                               bool is_requested_here);

/// The answer to a stop request of this node's user while the workers are ended for another reason.
std::string answer_stop_request(int signal);

}  // namespace ddp::launcher
