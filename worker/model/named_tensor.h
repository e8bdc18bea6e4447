// A tensor and the name it has in checkpoints and messages.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace ddp::worker {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

inline std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& one : named)
    tensors.push_back(one.tensor);
  return tensors;
}

}  // namespace ddp::worker
