// The hardware, system and limits of this node, for `ddp-launch doctor`. Nothing here fails: a
// value that cannot be read stays as in an empty NodeHealth.
#pragma once

#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

/// Reads kernel, machine, memory, /dev/shm, limits and driver. Callers fill in the rest.
NodeHealth read_node_health();

}  // namespace ddp::launcher
