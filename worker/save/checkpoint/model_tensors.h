// The model in a checkpoint, as tensors by name: as it was trained, or as it is evaluated.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "common/job/job_values.h"
#include "worker/model/named_tensor.h"
#include "worker/save/checkpoint/checkpoint.h"

namespace ddp::worker {

/// Whether the run kept a moving average (optimizer.ema_decay); its evaluations then use the
/// average.
bool has_averages(const LoadedCheckpoint& checkpoint);

/// Parameters and buffers, in the order of Python's state_dict. With `averaged`, averages replace
/// their tensors, in the tensors' own type, as in an evaluation; integer buffers are the model's.
std::vector<NamedTensor> model_tensors(const LoadedCheckpoint& checkpoint, bool averaged);

/// Puts the checkpoint's model into `model` as it is evaluated: with its averages if it has any.
/// `identity` is that of the job that built `model` (job_identity()). Errors: UsageError with the
/// keys that make it another model, or with the tensors that do not fit.
void put_evaluated(const LoadedCheckpoint& checkpoint,
                   const TextMap& identity,
                   const torch::nn::Module& model);

}  // namespace ddp::worker
