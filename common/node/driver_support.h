// What the NVIDIA driver shows of a node's GPUs, and what a release of CUDA needs of the driver and
// of a GPU. Pure: driver_query asks the driver.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/node/visible_gpus.h"

namespace ddp {

/// What the library NVML shows.
struct NvmlGpus {
  std::vector<Gpu> gpus;  // by PCI address, those that this process may use
  std::vector<GpuUse> uses;
  int cuda = 0;        // the newest that the driver knows, 13000 for 13.0; 0: not known
  std::string driver;  // "580.65.06"; empty: not known
};

/// What the driver's library for CUDA says of this node's GPUs: whether they can be used, and,
/// where the driver has no files to read (WSL2), which they are.
struct CudaDriver {
  bool is_there = false;  // libcuda.so.1
  int result = 0;         // of cuInit: CUresult; 0: GPUs can be used
  int cuda = 0;           // the newest that the driver knows, 13000 for 13.0; 0: not known
  std::vector<Gpu> gpus;  // those that CUDA shows to the probe, in CUDA's order
  // Pairs of indices into `gpus`: one GPU cannot access the other's memory.
  std::vector<std::pair<int, int>> without_peer_access{};

  /// The driver is installed and does not work. A machine without GPUs does not count, even if it
  /// has the library.
  [[nodiscard]] bool is_broken() const;
};

/// Why no GPU can be used, and what to do; empty: it can.
std::string why_unusable(const CudaDriver& driver);

/// The CUDA versions of driver and LibTorch, as CUDA writes them: 13000 is 13.0. 0: not known.
struct CudaVersions {
  std::string driver;  // "580.65.06"
  int of_driver = 0;
  int of_libtorch = 0;
};

/// "the NVIDIA driver ... knows CUDA ..."; empty when the versions fit.
std::string why_too_old(const CudaVersions& versions);

/// "has compute capability 7.0, and LibTorch's CUDA 13.0 needs 7.5"; empty when LibTorch has
/// kernels for a GPU of this capability (90 for 9.0), or when one of the two is not known.
std::string why_no_kernels(int capability, int of_libtorch);

/// "13.0" of 13000.
std::string cuda_text(int cuda);

}  // namespace ddp
