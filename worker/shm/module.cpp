// libddp-shm-2.15.so: the backend of the Python module ddp_shm (deploy/shm). It is linked to
// LibTorch and not to Python, so one file serves every Python that has this minor release of torch.
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "worker/dist/shared_sums.h"
#include "worker/dist/watched_gloo.h"

namespace ddp::worker {
namespace {

/// Gives `group` a backend for tensors on CPUs: Gloo, whose sums go through shared memory where all
/// ranks are on one node. Returns whether they do. All ranks of the group call it. Blocks: until
/// they have. Errors: those of Gloo; c10::DistStoreError.
bool add_backend(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::int64_t timeout_ms) {
  using c10d::PrefixStore;
  const std::chrono::milliseconds timeout(timeout_ms);
  const c10::intrusive_ptr<c10d::Store> store = group->getStore();
  const int rank = group->getRank();
  const int world_size = group->getSize();
  auto gloo =
      c10::make_intrusive<WatchedGloo>(c10::make_intrusive<PrefixStore>("cpu", store),
                                       rank,
                                       world_size,
                                       c10d::ProcessGroupGloo::Options::create_default(timeout));
  std::unique_ptr<SharedSums> sums = SharedSums::connect(
      {c10::make_intrusive<PrefixStore>("sums", store), rank, world_size, timeout, timeout});
  const bool is_shared = sums != nullptr;
  if (is_shared) gloo->use(std::move(sums));
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, std::move(gloo));
  return is_shared;
}

}  // namespace
}  // namespace ddp::worker

TORCH_LIBRARY(ddp_shm, library) {
  library.def("add_backend", &ddp::worker::add_backend);
}
