// The tensors of a model by their names: those that are trained, and the rest of its state.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "worker/model/named_tensor.h"

namespace ddp::worker {

/// Tensors that may be trained, and the others that belong to the model's state; both in order of
/// construction.
std::vector<NamedTensor> parameters_of(const torch::nn::Module& model);
std::vector<NamedTensor> buffers_of(const torch::nn::Module& model);

/// Parameters that are trained, for Ddp and the optimizer; those that are frozen (model/freeze);
/// and tensors that are equal on all ranks without a reduction: the frozen parameters, then the
/// buffers.
std::vector<NamedTensor> trainable_of(const torch::nn::Module& model);
std::vector<NamedTensor> frozen_of(const torch::nn::Module& model);
std::vector<NamedTensor> fixed_of(const torch::nn::Module& model);

/// Parameters and buffers: all that a checkpoint of the model holds.
std::vector<NamedTensor> state_of(const torch::nn::Module& model);

}  // namespace ddp::worker
