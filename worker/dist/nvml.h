// What the driver's own library says of this node's GPUs: free memory, and who is on them.
// Loaded when it is there (libnvidia-ml.so.1 comes with the driver); CUDA is not touched, so no
// memory of a GPU is taken by asking.
#pragma once

#include <vector>

#include "common/gpus.h"
#include "worker/plan/device_choice.h"

namespace ddp::worker {

struct NvmlGpus {
  std::vector<Gpu> gpus;  // by PCI address, those that this process may use
  std::vector<GpuUse> uses;
  int cuda = 0;  // of the driver's library, 13000 for 13.0; 0: not known
};

/// Empty when the library is not there or does not answer.
NvmlGpus ask_nvml();

}  // namespace ddp::worker
