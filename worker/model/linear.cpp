#include "worker/model/linear.h"

namespace ddp::worker {

LinearModel::LinearModel(std::int64_t inputs, int classes) {
  fc_ = register_module("fc", torch::nn::Linear(inputs, classes));
}

at::Tensor LinearModel::forward(at::Tensor x) {  // [B, C, H, W]
  return fc_(at::flatten(x, 1));                 // [B, classes]
}

}  // namespace ddp::worker
