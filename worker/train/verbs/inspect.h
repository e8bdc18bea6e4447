// `ddp-worker inspect`: shows what is in a checkpoint or a file of weights, or how two of them
// differ.
#pragma once

#include "worker/plan/options.h"

namespace ddp::worker {

/// Reads and verifies `options.files`, and prints what is in one, or how two differ, as text or as
/// one line of JSON. Returns the exit code. Errors: UsageError, also for damaged files.
int inspect(const Options& options);

}  // namespace ddp::worker
