// Whether a worker failed by an error of its own, and not because it lost a peer, by its last
// words. Pure.
#pragma once

#include <string_view>

namespace ddp::launcher {

struct WorkerReport;

/// True for Python's traceback that mentions no connection, no peer and no collective. False if
/// there is no traceback: then nobody knows.
bool raised_own_error(const WorkerReport& worker);

}  // namespace ddp::launcher
