// What this node is and what its limits are, for `ddp-launch doctor`. Nothing here fails: what
// cannot be read is left as it is in an empty NodeHealth.
#pragma once

#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

/// Kernel, machine, memory, /dev/shm, limits and driver; the rest is for anyone who knows it.
NodeHealth read_node_health();

}  // namespace ddp::launcher
