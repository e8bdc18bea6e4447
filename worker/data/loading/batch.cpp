#include "worker/data/loading/batch.h"

namespace ddp::worker {

Batch Batch::to(at::Device device) const {
  // Trap: the host waits for a copy to a GPU from pageable memory. LibTorch keeps pinned memory
  // until the copy is done.
  const auto move = [device](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const at::TensorOptions there = tensor.options().device(device);
    return !device.is_cpu() && tensor.is_cpu()
               ? tensor.pin_memory().to(there, /*non_blocking=*/true)
               : tensor.to(there);
  };
  Batch there{move(input), {}, indices};
  for (const Target& target : targets)
    there.targets.push_back({move(target.values), move(target.rows)});
  return there;
}

}  // namespace ddp::worker
