// What the driver's library for CUDA says of this node's GPUs: whether they can be used, and which
// they are where the driver has no files to be read (WSL2). driver_query asks it with a limit.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/node/gpus.h"

namespace ddp {

struct CudaDriver {
  bool is_there = false;                     // libcuda.so.1
  int result = 0;                            // of cuInit: CUresult; 0: GPUs can be used
  int cuda = 0;                              // that it knows, 13000 for 13.0; 0: not known
  std::vector<Gpu> gpus;                     // that CUDA shows this process, in its order
  std::vector<std::pair<int, int>> apart{};  // two of them that cannot read each other's memory

  /// There, and out of order; a machine without GPUs may have its library, too.
  [[nodiscard]] bool is_broken() const;
};

/// Loads it for the rest of the process, and starts CUDA there without taking memory of a GPU.
/// Blocks: for a second or two, and for ever where a GPU is broken.
CudaDriver ask_cuda_driver();

/// Why no GPU can be used, and what to do; empty: it can. The driver's files are not there.
std::string why_unusable(const CudaDriver& driver);

}  // namespace ddp
