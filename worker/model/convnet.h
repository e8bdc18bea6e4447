// The fast MNIST net: two convolutions, two linear layers, about 215,000 parameters.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "worker/model/image_model.h"

namespace ddp::worker {

class ConvNet : public ImageModel {
 public:
  /// For images of `channels` x `height` x `width`. Errors: UsageError when they are too small to
  /// leave one pixel.
  ConvNet(std::int64_t channels, std::int64_t height, std::int64_t width, int classes);

  at::Tensor forward(at::Tensor x) override;

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
};

}  // namespace ddp::worker
