// The base class of all built-in models: images in, numbers out.
#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "worker/model/state.h"

namespace ddp::worker {

/// Shapes: forward takes [B, C, H, W] and returns [B, classes], unless it is a Detector.
class ImageModel : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor x) = 0;
};

/// Shared by the module tree and its user, as torch::nn::Module requires.
using Model = std::shared_ptr<ImageModel>;

}  // namespace ddp::worker
