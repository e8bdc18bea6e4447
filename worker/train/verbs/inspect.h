// `ddp-worker inspect`: what is in a checkpoint or a file of weights, and how two of them differ.
#pragma once

#include "worker/plan/options.h"

namespace ddp::worker {

/// Reads and verifies what `options.files` name, and prints it, or the difference of two, as text
/// or as one line of JSON. Returns the exit code. Errors: UsageError, also for damaged files.
int inspect(const Options& options);

}  // namespace ddp::worker
