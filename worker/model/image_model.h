// What every model of ours is: images in, one score per class out; and its tensors by their names.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "worker/model/named_tensor.h"

namespace ddp::worker {

/// Shapes: forward takes [B, C, H, W] and gives [B, classes].
class ImageModel : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor x) = 0;
};

/// Shared by the module tree and its user, as torch::nn::Module requires.
using Model = std::shared_ptr<ImageModel>;

/// Tensors that may be trained, and the others that belong to the model's state; both in order of
/// construction.
std::vector<NamedTensor> parameters_of(const ImageModel& model);
std::vector<NamedTensor> buffers_of(const ImageModel& model);

/// The parameters that are trained, for Ddp and the optimizer, and those that are frozen
/// (model/freeze); and what is equal on all ranks without being reduced: the frozen parameters,
/// then the buffers.
std::vector<NamedTensor> trainable_of(const ImageModel& model);
std::vector<NamedTensor> frozen_of(const ImageModel& model);
std::vector<NamedTensor> fixed_of(const ImageModel& model);

/// Parameters and buffers: all that a checkpoint of the model holds.
std::vector<NamedTensor> state_of(const ImageModel& model);

}  // namespace ddp::worker
