#include "worker/dist/default_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <stdexcept>

namespace ddp::worker {

void require_default_stream(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_cpu()) continue;
    const c10::impl::VirtualGuardImpl device(tensor.device().type());
    if (device.getStream(tensor.device()) == device.getDefaultStream(tensor.device())) continue;
    throw std::logic_error("gloo takes tensors of " + tensor.device().str() +
                           " on its default stream alone, and another one is current. Leave its "
                           "guard before backward() and collectives, or use the backend nccl.");
  }
}

}  // namespace ddp::worker
