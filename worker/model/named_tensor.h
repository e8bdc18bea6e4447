// A tensor with its name in checkpoints and messages.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "worker/data/sample.h"

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

/// "[1x28x28]"; "nothing" for an undefined tensor.
inline std::string shape_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return "[" + shape_text({tensor.sizes().data(), tensor.sizes().size()}) + "]";
}

}  // namespace ddp::worker
