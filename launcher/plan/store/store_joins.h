// Who has joined the store of a round, and who has not. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "launcher/plan/round/worker_state.h"

namespace ddp::launcher {

/// Names those that have not come, once others have: "2 of 4 ranks have joined the store; still to
/// come: rank 1 (pid 17), rank 3 (pid 19)". Nothing while nobody or everybody has come, and while
/// `unknown_clients`, clients that are not workers of ours, could be those that are missing.
std::optional<std::string> who_is_missing(std::span<const WorkerState> ranks, int unknown_clients);

}  // namespace ddp::launcher
