// Softmax regression: the baseline that a convolutional net must beat.
#pragma once

#include <torch/nn/modules/linear.h>

#include "worker/model/image_model.h"

namespace ddp::worker {

class LinearModel : public ImageModel {
 public:
  LinearModel(std::int64_t inputs, int classes);

  at::Tensor forward(at::Tensor x) override;

 private:
  torch::nn::Linear fc_{nullptr};
};

}  // namespace ddp::worker
