// Which ranks have joined the store of a round. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "launcher/plan/round/worker_state.h"

namespace ddp::launcher {

/// Names the ranks that have not joined while others have: "2 of 4 ranks have joined the store;
/// still to come: rank 1 (pid 17), rank 3 (pid 19)". Nothing while no rank or every rank has
/// joined, or while `unknown_clients` (clients that are not our workers) could be the missing
/// ranks.
std::optional<std::string> who_is_missing(std::span<const WorkerState> ranks, int unknown_clients);

}  // namespace ddp::launcher
