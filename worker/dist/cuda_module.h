// Loads libddp-worker-cuda.so, the only file that is linked to libtorch_cuda and NCCL.
// Promises: a worker on CPUs never loads CUDA (0.24 s to its first tensor operation instead of
// 0.40 s); a module from another build is refused.
// Trap: LibTorch asks once whether it has CUDA, and remembers the answer; so the module is loaded
// before the first question to at::globalContext(), a generator or a tensor on a GPU.
// All else of CUDA (devices, streams, memory) works through c10's own interfaces once the module is
// loaded.
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
  c10::intrusive_ptr<c10d::Store> store;  // only NCCL uses its keys
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{0};  // of a collective
};

/// What the module does. It throws only c10's exceptions.
class CudaModule {
 public:
  CudaModule() = default;
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;
  virtual ~CudaModule() = default;

  /// "2.28.9"
  [[nodiscard]] virtual std::string nccl_version() const = 0;

  /// The CUDA runtime that the module was built with: 13000 is 13.0.
  [[nodiscard]] virtual int cuda_version() const = 0;

  /// A ProcessGroupNCCL that has no communicator yet.
  [[nodiscard]] virtual c10::intrusive_ptr<c10d::Backend> make_nccl(
      const NcclRequest& request) const = 0;

  /// The settings of a group that make_nccl() has made.
  [[nodiscard]] virtual NcclSettings settings_of(const c10d::Backend& nccl) const = 0;

  /// For tests: from now on any LibTorch call in this process that makes the host wait for a stream
  /// throws c10::Error; false allows such calls again. Waits for events and devices do not count.
  virtual void forbid_host_sync(bool is_forbidden) const = 0;
};

/// Must be equal in the program and in the module, which are both compiled with it. Increase the
/// number with every change of CudaModule.
inline constexpr const char* kCudaModuleBuild =
    "ddp " DDP_VERSION ", LibTorch " TORCH_VERSION ", module 3";

/// The module's only exported function. Returns the module, which lives to the end of the process.
/// If `*build` is not kCudaModuleBuild of the module, it returns null and sets `*build` to that.
using CudaModuleEntry = const CudaModule*(std::string* build);
inline constexpr const char* kCudaModuleEntry = "ddp_cuda_module";

/// Loads the module for the rest of the process. Errors: UsageError: there is no such file, a
/// library of the CUDA wheels is missing, or the module is of another build.
const CudaModule& load_cuda_module(const std::filesystem::path& path);

}  // namespace ddp::worker
