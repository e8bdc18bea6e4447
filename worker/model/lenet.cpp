#include "worker/model/lenet.h"

#include <torch/nn/functional/pooling.h>

#include <algorithm>

#include "common/error.h"

namespace ddp::worker {
namespace {

// A side after conv 5x5 with that border, pool 2, conv 5x5, pool 2.
std::int64_t side_after(std::int64_t side, std::int64_t border) {
  return ((side + 2 * border - 4) / 2 - 4) / 2;
}

}  // namespace

LeNet::LeNet(std::int64_t channels, std::int64_t height, std::int64_t width, int classes) {
  const std::int64_t border = std::min(height, width) < 32 ? 2 : 0;
  const std::int64_t pixels = side_after(height, border) * side_after(width, border);
  if (std::min(height, width) < 12) {
    throw UsageError("model.name: lenet needs images of at least 12 x 12 pixels, these have " +
                     std::to_string(height) + " x " + std::to_string(width) + ".");
  }
  conv1_ = register_module(
      "conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 6, 5).padding(border)));
  conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)));
  fc1_ = register_module("fc1", torch::nn::Linear(16 * pixels, 120));
  fc2_ = register_module("fc2", torch::nn::Linear(120, 84));
  fc3_ = register_module("fc3", torch::nn::Linear(84, classes));
}

at::Tensor LeNet::forward(at::Tensor x) {      // [B, C, 28, 28]
  x = at::relu(at::max_pool2d(conv1_(x), 2));  // [B, 6, 14, 14]
  x = at::relu(at::max_pool2d(conv2_(x), 2));  // [B, 16, 5, 5]
  x = at::relu(fc1_(at::flatten(x, 1)));       // [B, 120]
  x = at::relu(fc2_(x));                       // [B, 84]
  return fc3_(x);                              // [B, classes]
}

}  // namespace ddp::worker
