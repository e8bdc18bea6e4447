// libddp-shm-2.15.so: the backend of the Python module ddp_shm (deploy/shm). It is linked to
// LibTorch and not to Python, so one file serves every Python that has this minor release of torch.
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "worker/dist/watched_gloo.h"

namespace ddp::worker {
namespace {

/// Gives `group` a backend for tensors on CPUs: Gloo, with sums through the memory that ranks of a
/// node share (WatchedGloo::share_memory). Returns why they do not go there; empty: they do. All
/// ranks of the group call it. Blocks: until they have. Errors: those of Gloo.
std::string add_backend(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                        std::int64_t timeout_ms) {
  using c10d::ProcessGroupGloo;
  auto gloo = c10::make_intrusive<WatchedGloo>(
      c10::make_intrusive<c10d::PrefixStore>("cpu", group->getStore()),
      group->getRank(),
      group->getSize(),
      ProcessGroupGloo::Options::create_default(std::chrono::milliseconds(timeout_ms)));
  std::string why_not = gloo->share_memory();
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, std::move(gloo));
  return why_not;
}

}  // namespace
}  // namespace ddp::worker

TORCH_LIBRARY(ddp_shm, library) {
  library.def("add_backend", &ddp::worker::add_backend);
}
