// The GPUs of this node, from the driver's files, without CUDA or its libraries.
#pragma once

#include <string>
#include <vector>

#include "common/node/visible_gpus.h"

namespace ddp {

/// The GPUs with a device file /dev/nvidiaN, as the driver's files describe them, by PCI address.
std::vector<Gpu> find_gpus();

/// "580.65.06"; empty when there is no NVIDIA driver.
std::string find_gpu_driver();

/// Whether this is WSL2, where GPUs are reached by a device of Windows.
bool is_wsl();

}  // namespace ddp
