#include "worker/model/small_nets.h"

#include <ATen/ops/dropout.h>
#include <torch/nn/functional/pooling.h>

#include <algorithm>

#include "common/error.h"

namespace ddp::worker {
namespace {

// A side after conv 5x5 with that border, pool 2, conv 5x5, pool 2.
std::int64_t side_of_lenet(std::int64_t side, std::int64_t border) {
  return ((side + 2 * border - 4) / 2 - 4) / 2;
}

// A side after conv 5x5, pool 2, conv 3x3, pool 2.
std::int64_t side_of_convnet(std::int64_t side) {
  return ((side - 4) / 2 - 2) / 2;
}

// Fewer leave no pixel behind the second pool of either net.
void require_pixels(const std::string& net, std::int64_t height, std::int64_t width) {
  if (std::min(height, width) >= 12) return;
  throw UsageError("model.name: " + net + " needs images of at least 12 x 12 pixels, these have " +
                   std::to_string(height) + " x " + std::to_string(width) + ".");
}

}  // namespace

LeNet::LeNet(std::int64_t channels, std::int64_t height, std::int64_t width, int classes) {
  const std::int64_t border = std::min(height, width) < 32 ? 2 : 0;
  const std::int64_t pixels = side_of_lenet(height, border) * side_of_lenet(width, border);
  require_pixels("lenet", height, width);
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

ConvNet::ConvNet(std::int64_t channels, std::int64_t height, std::int64_t width, int classes) {
  require_pixels("convnet", height, width);
  // Constructed in this order because construction reads the generator: it makes the weights equal
  // to Python's.
  conv1_ = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 24, 5)));
  conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(24, 32, 3)));
  fc1_ = register_module(
      "fc1", torch::nn::Linear(32 * side_of_convnet(height) * side_of_convnet(width), 256));
  fc2_ = register_module("fc2", torch::nn::Linear(256, classes));
}

at::Tensor ConvNet::forward(at::Tensor x) {    // [B, C, 28, 28]
  x = at::relu(at::max_pool2d(conv1_(x), 2));  // [B, 24, 12, 12]
  x = at::relu(at::max_pool2d(conv2_(x), 2));  // [B, 32, 5, 5]
  x = at::relu(fc1_(at::flatten(x, 1)));       // [B, 256]
  return fc2_(x);                              // [B, classes]
}

Mlp::Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, int classes, double dropout)
    : dropout_(dropout) {
  std::vector<std::int64_t> sizes = hidden;
  sizes.push_back(classes);
  for (const std::int64_t size : sizes) {
    const std::string name = hidden.empty() ? "fc" : "fc" + std::to_string(layers_.size() + 1);
    layers_.push_back(register_module(name, torch::nn::Linear(inputs, size)));
    inputs = size;
  }
}

at::Tensor Mlp::forward(at::Tensor x) {  // [B, C, H, W]
  x = at::flatten(x, 1);                 // [B, C * H * W]
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    x = at::relu(layers_[i](x));  // [B, hidden[i]]
    if (dropout_ > 0) x = at::dropout(x, dropout_, is_training());
  }
  return layers_.back()(x);  // [B, classes]
}

}  // namespace ddp::worker
