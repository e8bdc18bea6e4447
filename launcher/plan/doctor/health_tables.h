// The two tables that `ddp-launch doctor` prints: what each node is, and how it reaches the others.
// Pure.
#pragma once

#include <span>
#include <string>

#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

/// One line for each node, below a head.
std::string health_table(std::span<const NodeHealth> nodes);

/// The same for the checks of each other, and a line that explains the columns.
std::string network_table(std::span<const NodeHealth> nodes, std::span<const NodeChecks> checks);

}  // namespace ddp::launcher
