// The GPUs of a node, and which of them a program sees: CUDA's rules for CUDA_VISIBLE_DEVICES,
// without CUDA. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// What the driver's files show of one GPU. A list is in CUDA's order by PCI bus, as far as known.
struct Gpu {
  int minor = 0;       // N of /dev/nvidiaN
  std::string pci;     // "0000:dc:00.0"; empty: not known
  std::string uuid;    // "GPU-..."; empty: not known
  std::string model;   // "NVIDIA H200"; empty: not known
  int numa_node = -1;  // -1: not known
  int capability = 0;  // compute capability, 90 for 9.0; 0: not known
};

/// How a GPU is used, as far as the driver shows. Units: bytes.
struct GpuUse {
  std::optional<std::int64_t> free;
  std::int64_t total = 0;
  std::vector<int> owners;  // pids
};

/// One entry of CUDA_VISIBLE_DEVICES that CUDA accepts.
struct VisibleGpu {
  std::string entry;  // as written; an index if the variable is not set
  int index = -1;  // into the node's list; -1: a UUID or a part of a GPU (MIG) that we cannot place
};

struct VisibleGpus {
  std::vector<VisibleGpu> gpus;
  std::string refused;  // the entry at which CUDA stops reading; empty: none
};

/// The GPUs that a program sees under `visible`, the value of CUDA_VISIBLE_DEVICES. Not set: every
/// GPU. Empty, or a first entry like -1: none. CUDA stops at the first entry that names no GPU, and
/// sees nothing if a GPU is named twice. Source: CUDA programming guide, environment variables.
VisibleGpus visible_gpus(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible);

/// A GPU from the text of /proc/driver/nvidia/gpus/BUS/information; nothing without a minor number.
std::optional<Gpu> read_gpu(std::string_view information);

/// The version in the first line of /proc/driver/nvidia/version; empty when there is none.
std::string read_driver_version(std::string_view text);

/// "0000:dc:00.0", as the driver's files have it, of "00000000:DC:00.0" or "0000:DC:00.0".
std::string pci_address(std::string text);

/// "0 (NVIDIA H200, 0000:dc:00.0), 1 (...)", or "none".
std::string list_gpus(const std::vector<Gpu>& gpus);

}  // namespace ddp
