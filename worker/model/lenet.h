// LeNet-5 as usual today: ReLU and max-pooling where the paper has tanh and trained averages.
// Source: LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998, figure 2.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "worker/model/image_model.h"

namespace ddp::worker {

class LeNet : public ImageModel {
 public:
  /// For images of `channels` x `height` x `width`. Images under 32 pixels are padded by two, so
  /// that 28 x 28 gives the same net as 32 x 32. Errors: UsageError when they are too small to
  /// leave one pixel.
  LeNet(std::int64_t channels, std::int64_t height, std::int64_t width, int classes);

  at::Tensor forward(at::Tensor x) override;

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
  torch::nn::Linear fc3_{nullptr};
};

}  // namespace ddp::worker
