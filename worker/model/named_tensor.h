// A tensor and the name it has in checkpoints and messages.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ddp::worker {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace ddp::worker
