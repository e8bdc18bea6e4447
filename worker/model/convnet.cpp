#include "worker/model/convnet.h"

#include <torch/nn/functional/pooling.h>

#include "common/error.h"

namespace ddp::worker {
namespace {

// A side after conv 5x5, pool 2, conv 3x3, pool 2.
std::int64_t side_after(std::int64_t side) {
  return ((side - 4) / 2 - 2) / 2;
}

}  // namespace

ConvNet::ConvNet(std::int64_t channels, std::int64_t height, std::int64_t width, int classes) {
  if (side_after(height) < 1 || side_after(width) < 1) {
    throw UsageError("model.name: convnet needs images of at least 12 x 12 pixels, these have " +
                     std::to_string(height) + " x " + std::to_string(width) + ".");
  }
  // Constructed in this order because construction reads the generator: it makes the weights equal
  // to Python's.
  conv1_ = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 24, 5)));
  conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(24, 32, 3)));
  fc1_ =
      register_module("fc1", torch::nn::Linear(32 * side_after(height) * side_after(width), 256));
  fc2_ = register_module("fc2", torch::nn::Linear(256, classes));
}

at::Tensor ConvNet::forward(at::Tensor x) {    // [B, C, 28, 28]
  x = at::relu(at::max_pool2d(conv1_(x), 2));  // [B, 24, 12, 12]
  x = at::relu(at::max_pool2d(conv2_(x), 2));  // [B, 32, 5, 5]
  x = at::relu(fc1_(at::flatten(x, 1)));       // [B, 256]
  return fc2_(x);                              // [B, classes]
}

}  // namespace ddp::worker
