// The model in a checkpoint, as tensors by name: as it was trained, or as it is evaluated.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "common/job/job_values.h"
#include "worker/model/named_tensor.h"
#include "worker/save/checkpoint/checkpoint.h"

namespace ddp::worker {

/// Whether the run kept a moving average (optimizer.ema_decay); its evaluations are then those of
/// the average.
bool has_averages(const LoadedCheckpoint& checkpoint);

/// Parameters and buffers, in the order of Python's state_dict. With `averaged` the averages stand
/// in the place of what they are of, in its type, as in an evaluation; integer buffers are the
/// model's.
std::vector<NamedTensor> model_tensors(const LoadedCheckpoint& checkpoint, bool averaged);

/// Makes `model` the one of the checkpoint as it is evaluated: its averages where it has any.
/// `identity` is that of the job that built the model (job_identity()). Errors: UsageError, which
/// names the keys of another model, or the tensors that do not fit.
void put_evaluated(const LoadedCheckpoint& checkpoint,
                   const TextMap& identity,
                   const torch::nn::Module& model);

}  // namespace ddp::worker
