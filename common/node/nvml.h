// What the driver's own library says of this node's GPUs: free memory, and who is on them.
// Loaded when it is there (libnvidia-ml.so.1 comes with the driver); CUDA is not touched, so no
// memory of a GPU is taken by asking.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/node/gpus.h"

namespace ddp {

/// How a GPU is used, as far as the driver tells. Units: bytes.
struct GpuUse {
  std::optional<std::int64_t> free;
  std::int64_t total = 0;
  std::vector<int> owners;  // pids, this process left out
};

struct NvmlGpus {
  std::vector<Gpu> gpus;  // by PCI address, those that this process may use
  std::vector<GpuUse> uses;
  int cuda = 0;        // of the driver's library, 13000 for 13.0; 0: not known
  std::string driver;  // "580.65.06"; empty: not known
};

/// Empty when the library is not there or does not answer. Blocks: for milliseconds, seconds where
/// no other program keeps the driver awake, and for ever where a GPU is broken.
NvmlGpus ask_nvml();

}  // namespace ddp
