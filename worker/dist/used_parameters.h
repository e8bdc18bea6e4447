// Which parameters backward has reached, seen by hooks on the graph's leaves. A gradient that was
// zeroed in place cannot tell: it is zero as well where nothing was added to it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/model/named_tensor.h"

namespace torch::autograd {
struct Node;
}  // namespace torch::autograd

namespace ddp::worker {

class UsedParameters {
 public:
  /// Of `parameters`, which all require a gradient. Costs one call on the host for each of them in
  /// every backward, and nothing on the device.
  explicit UsedParameters(const std::vector<NamedTensor>& parameters);
  UsedParameters(const UsedParameters&) = delete;
  UsedParameters& operator=(const UsedParameters&) = delete;
  ~UsedParameters();

  /// Places of the parameters that have got no gradient since the last reset(), ascending. One that
  /// the graph leads to but to which no gradient came is one of them, as in Python.
  [[nodiscard]] std::vector<std::size_t> unused() const;

  void reset();

 private:
  struct Leaf {
    std::shared_ptr<torch::autograd::Node> node;  // autograd itself holds it weakly
    std::uintptr_t hook;
  };

  // Bytes: on a device the hooks run in autograd's own threads.
  std::vector<unsigned char> is_used_;
  std::vector<Leaf> leaves_;
};

}  // namespace ddp::worker
