// `ddp-worker export`: the weights of a checkpoint in one file, for Python and others.
#pragma once

#include "worker/plan/options.h"

namespace ddp::worker {

/// Writes model parameters and buffers, or their moving averages, to `options.output`: by the
/// ending of its name as safetensors, or as a state_dict that torch.load takes. The file is whole
/// or not there. Returns the exit code. Errors: UsageError, also when the file cannot be written:
/// an older file then stays as it was.
int export_weights(const Options& options);

}  // namespace ddp::worker
