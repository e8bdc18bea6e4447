// `ddp-worker export`: the weights of a checkpoint in one file, for Python and others.
#pragma once

#include "worker/plan/options.h"

namespace ddp::worker {

/// Writes model parameters and buffers, or their moving averages, to `options.output`: safetensors,
/// or a state_dict that torch.load takes, as its name ends. The file is whole or not there.
/// Returns the exit code. Errors: UsageError, also when it cannot be written: what was there is
/// then as it was.
int export_weights(const Options& options);

}  // namespace ddp::worker
