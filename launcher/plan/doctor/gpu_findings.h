// What speaks against training on this node's GPUs, each in a line with what to do. Pure: what was
// found is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/node/driver_query.h"
#include "common/node/visible_gpus.h"

namespace ddp::launcher {

/// ddp-worker's module for GPUs, which is linked to torch's CUDA part and NCCL.
struct CudaModuleHealth {
  bool is_wanted = false;  // there is a ddp-worker here
  bool is_built = false;
  std::string error;  // why it, or a library that it needs, cannot be opened; empty: it can
  int cuda = 0;       // that its torch is built with, 13000 for 13.0; 0: not known
};

struct GpuHealth {
  std::vector<Gpu> devices;  // those with a device file
  std::string files_driver;  // version by the driver's files; empty: there are none
  DriverAnswer driver;
  CudaModuleHealth module;
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES of a job
  std::int64_t min_free = 0;           // bytes; ddp-worker refuses a GPU with less
};

struct GpuFindings {
  std::vector<std::string> problems;  // each would make a job on the visible GPUs fail
  std::vector<std::string> notes;
  bool operator==(const GpuFindings&) const = default;
};

/// Nothing for a node that has neither GPUs nor a driver.
GpuFindings check_gpus(const GpuHealth& health);

}  // namespace ddp::launcher
