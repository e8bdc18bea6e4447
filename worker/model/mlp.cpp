#include "worker/model/mlp.h"

#include <ATen/ops/dropout.h>

namespace ddp::worker {

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
