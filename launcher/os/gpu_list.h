// This node's GPUs by the driver's own libraries, for a node whose driver has no files: WSL2 has
// neither /dev/nvidiaN nor /proc/driver/nvidia. They are asked in a process of its own, as in
// os/gpu_query: the launcher itself loads nothing of the driver.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/node/gpus.h"

namespace ddp::launcher {

struct GpuList {
  std::vector<Gpu> gpus;
  std::string driver;   // "580.65.06", or "of CUDA 13.0" where no more is known
  std::string problem;  // why there are none; empty: there are
};

/// Whether this is WSL2, where GPUs are reached by a device of Windows.
bool is_wsl();

/// Blocks: a second or two at most where there is a driver, milliseconds where there is none; for
/// kDriverLimit where it does not answer. Errors: SystemError.
GpuList ask_driver();

inline constexpr std::chrono::seconds kDriverLimit{10};

}  // namespace ddp::launcher
