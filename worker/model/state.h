// Lists the tensors of a model with their names: parameters, buffers, and combinations of them.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "worker/model/named_tensor.h"

namespace ddp::worker {

/// All parameters, frozen or not, in order of construction.
std::vector<NamedTensor> parameters_of(const torch::nn::Module& model);
/// All buffers, such as running statistics, in order of construction.
std::vector<NamedTensor> buffers_of(const torch::nn::Module& model);

/// The trainable parameters, for Ddp and the optimizer.
std::vector<NamedTensor> trainable_of(const torch::nn::Module& model);
/// The frozen parameters (model/freeze).
std::vector<NamedTensor> frozen_of(const torch::nn::Module& model);
/// All tensors that need no gradient, and so no reduction over ranks: the frozen parameters, then
/// the buffers.
std::vector<NamedTensor> without_gradient_of(const torch::nn::Module& model);

/// Parameters and buffers: all that a checkpoint of the model holds.
std::vector<NamedTensor> state_of(const torch::nn::Module& model);

}  // namespace ddp::worker
