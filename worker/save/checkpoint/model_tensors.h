// The model in a checkpoint, as named tensors: with the weights as trained, or with their moving
// averages.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "common/job/job_values.h"
#include "worker/model/named_tensor.h"
#include "worker/save/checkpoint/checkpoint.h"

namespace ddp::worker {

/// Whether the run kept moving averages (optimizer.ema_decay), which its evaluations then use.
bool has_averages(const LoadedCheckpoint& checkpoint);

/// Parameters and buffers, in the order of Python's state_dict. With `averaged`, the moving
/// averages replace their tensors, converted to the tensors' types, as in an evaluation; integer
/// buffers have no averages.
std::vector<NamedTensor> model_tensors(const LoadedCheckpoint& checkpoint, bool averaged);

/// Copies the checkpoint's model into `model` for evaluation: with its averages if it has any.
/// `identity` is that of the job that built `model` (job_identity()). Errors: UsageError with the
/// keys that make it another model, or with the tensors that do not fit.
void load_for_evaluation(const LoadedCheckpoint& checkpoint,
                         const TextMap& identity,
                         const torch::nn::Module& model);

}  // namespace ddp::worker
