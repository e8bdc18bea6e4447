// The small networks, for images of a few dozen pixels a side.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "worker/model/image_model.h"

namespace ddp::worker {

/// LeNet-5 as usual today: ReLU and max-pooling where the paper has tanh and trained averages.
/// Source: LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998, figure 2.
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

/// The fast MNIST net: two convolutions, two linear layers, about 215,000 parameters.
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

/// Fully connected layers with ReLU, and dropout if wanted, between them. A single one is softmax
/// regression: the baseline that a convolutional net must beat.
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
