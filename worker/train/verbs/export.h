// `ddp-worker export`: writes the weights of a checkpoint to one file, for Python and others.
#pragma once

#include "worker/plan/options.h"

namespace ddp::worker {

/// Writes model parameters and buffers, or their moving averages, to `options.output`: as
/// safetensors, or as a state_dict for torch.load, depending on the file's extension. The file is
/// whole or does not exist. Returns the exit code. Errors: UsageError, also when the file cannot be
/// written; then an older file is unchanged.
int export_weights(const Options& options);

}  // namespace ddp::worker
