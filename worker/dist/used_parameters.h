// Which parameters backward has reached, seen by hooks on the graph's leaves. The gradients cannot
// show it: they are zeroed in place, so one that got nothing is zero too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/dist/torch_compat.h"
#include "worker/model/named_tensor.h"

namespace ddp::worker {

class UsedParameters {
 public:
  /// Watches `parameters`, which must all require a gradient. Costs one call on the host for each
  /// of them in every backward, and nothing on the device.
  explicit UsedParameters(const std::vector<NamedTensor>& parameters);
  UsedParameters(const UsedParameters&) = delete;
  UsedParameters& operator=(const UsedParameters&) = delete;
  ~UsedParameters();

  /// Indices of the parameters that have got no gradient since the last reset(), ascending. A
  /// parameter that the graph leads to but that got no gradient is among them, as in Python.
  [[nodiscard]] std::vector<std::size_t> unused() const;

  void reset();

 private:
  struct Leaf {
    GraphNode node;  // autograd itself holds it weakly
    std::uintptr_t hook;
  };

  // Bytes, not bits: on a device the hooks run in autograd's own threads.
  std::vector<unsigned char> is_used_;
  std::vector<Leaf> leaves_;
};

}  // namespace ddp::worker
