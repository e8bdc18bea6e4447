// What the driver's library for CUDA says of this node's GPUs: whether they can be used, and which
// they are where the driver has no files to be read (WSL2). Pure: driver_query asks it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/node/gpus.h"

namespace ddp {

struct CudaDriver {
  bool is_there = false;  // libcuda.so.1
  int result = 0;         // of cuInit: CUresult; 0: GPUs can be used
  int cuda = 0;           // that it knows, 13000 for 13.0; 0: not known
  std::vector<Gpu> gpus;  // that CUDA shows the process that asks, in its order
  // Two of them of which one cannot access the other's memory.
  std::vector<std::pair<int, int>> without_peer_access{};

  /// There, and out of order; a machine without GPUs may have its library, too.
  [[nodiscard]] bool is_broken() const;
};

/// Why no GPU can be used, and what to do; empty: it can.
std::string why_unusable(const CudaDriver& driver);

}  // namespace ddp
