// The wrapper of libddp-worker-cuda.so, which alone is linked to libtorch_cuda and NCCL.
// Promises: a worker on CPUs never loads CUDA (0.24 s to its first tensor operation instead of
// 0.40 s); a module of another build is refused, not called.
// Trap: LibTorch asks once whether it has CUDA, and remembers the answer; so the module is loaded
// before the first question to at::globalContext(), a generator or a tensor on a GPU.
// Everything else of CUDA (devices, streams, memory) is reached through c10's own interfaces once
// the module is loaded.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <filesystem>
#include <string>

#include "common/version.h"
#include "worker/dist/nccl_settings.h"

namespace ddp::worker {

struct NcclRequest {
  c10::intrusive_ptr<c10d::Store> store;  // its keys are NCCL's alone
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{0};  // of a collective
};

/// What the module can do. It throws c10's exceptions only.
class CudaModule {
 public:
  CudaModule() = default;
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;
  virtual ~CudaModule() = default;

  /// "2.28.9"
  [[nodiscard]] virtual std::string nccl_version() const = 0;

  /// CUDA runtime that the module is built with: 13000 is 13.0.
  [[nodiscard]] virtual int cuda_version() const = 0;

  /// ProcessGroupNCCL, with no communicator yet.
  [[nodiscard]] virtual c10::intrusive_ptr<c10d::Backend> make_nccl(
      const NcclRequest& request) const = 0;

  /// The settings of a group that make_nccl() has made.
  [[nodiscard]] virtual NcclSettings settings_of(const c10d::Backend& nccl) const = 0;

  /// From now on a call of LibTorch that makes the host wait for a stream throws c10::Error, in the
  /// whole process; false allows it again. Waits for events and devices do not count. For tests.
  virtual void forbid_host_sync(bool is_forbidden) const = 0;
};

/// Program and module are both compiled with this text, and it must be equal in both. The number
/// rises with every change of CudaModule.
inline constexpr const char* kCudaModuleBuild =
    "ddp " DDP_VERSION ", LibTorch " TORCH_VERSION ", module 3";

/// The module's one exported function. Returns the module, which lives to the end of the process.
/// If `*build` is not the module's own text, it returns null and puts its own there.
using CudaModuleEntry = const CudaModule*(std::string* build);
inline constexpr const char* kCudaModuleEntry = "ddp_cuda_module";

/// Loads the module for the rest of the process. Errors: UsageError: there is no such file, a
/// library of the CUDA wheels is missing, or the module is of another build.
const CudaModule& load_cuda_module(const std::filesystem::path& path);

}  // namespace ddp::worker
