// libddp-worker-cuda.so: NCCL for a program that is not linked to CUDA. See
// worker/dist/cuda_module.h.
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/NCCLUtils.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "worker/dist/cuda_module.h"

namespace ddp::worker {
namespace {

/// Gives access to settings that the base class keeps protected.
class Nccl : public c10d::ProcessGroupNCCL {
 public:
  using ProcessGroupNCCL::ProcessGroupNCCL;

  [[nodiscard]] NcclSettings settings() const {
    return {std::chrono::milliseconds(heartbeatMonitor_->getDumpTimeout()),
            options_->timeout,
            asyncErrorHandling_,
            blockingWait_};
  }
};

class NcclModule : public CudaModule {
 public:
  [[nodiscard]] std::string nccl_version() const override { return c10d::getNcclVersion(); }

  [[nodiscard]] int cuda_version() const override { return CUDART_VERSION; }

  [[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_nccl(
      const NcclRequest& request) const override {
    // Trap: later errors (a time-out, a broken link) are thrown in NCCL's watchdog thread, where
    // nobody can catch them: std::terminate follows (report_on_terminate() prints them, exit code
    // 97).
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = request.timeout + kNcclMargin;
    return c10::make_intrusive<Nccl>(request.store, request.rank, request.world_size, options);
  }

  [[nodiscard]] NcclSettings settings_of(const c10d::Backend& nccl) const override {
    return dynamic_cast<const Nccl&>(nccl).settings();
  }

  void forbid_host_sync(bool is_forbidden) const override {
    using c10::cuda::SyncDebugMode;
    c10::cuda::warning_state().set_sync_debug_mode(is_forbidden ? SyncDebugMode::L_ERROR
                                                                : SyncDebugMode::L_DISABLED);
  }
};

}  // namespace
}  // namespace ddp::worker

extern "C" __attribute__((visibility("default"))) const ddp::worker::CudaModule* ddp_cuda_module(
    std::string* build) {
  static const ddp::worker::NcclModule module;
  const std::string own = ddp::worker::kCudaModuleBuild;
  if (*build == own) return &module;
  *build = own;
  return nullptr;
}
