// What the driver's library NVML shows of this node's GPUs: free memory, and the processes that use
// them. Pure: driver_query asks it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/node/gpus.h"

namespace ddp {

/// How a GPU is used, as far as the driver shows. Units: bytes.
struct GpuUse {
  std::optional<std::int64_t> free;
  std::int64_t total = 0;
  std::vector<int> owners;  // pids
};

struct NvmlGpus {
  std::vector<Gpu> gpus;  // by PCI address, those that this process may use
  std::vector<GpuUse> uses;
  int cuda = 0;        // of the driver's library, 13000 for 13.0; 0: not known
  std::string driver;  // "580.65.06"; empty: not known
};

}  // namespace ddp
