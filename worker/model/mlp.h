// Fully connected layers with ReLU, and dropout if wanted, between them. A single one is softmax
// regression: the baseline that a convolutional net must beat.
#pragma once

#include <torch/nn/modules/linear.h>

#include <vector>

#include "worker/model/image_model.h"

namespace ddp::worker {

class Mlp : public ImageModel {
 public:
  /// Layers fc1, fc2, ... of `hidden` units each, and a last layer for the scores, which is called
  /// fc if it is the only one. In training each hidden unit is 0 with the probability `dropout`.
  Mlp(std::int64_t inputs,
      const std::vector<std::int64_t>& hidden,
      int classes,
      double dropout = 0);

  at::Tensor forward(at::Tensor x) override;

 private:
  std::vector<torch::nn::Linear> layers_;
  double dropout_;
};

}  // namespace ddp::worker
