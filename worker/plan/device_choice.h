// Chooses the device of a rank, and whether gradients go by NCCL. Pure: the caller gives the facts
// about the node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/node/driver_support.h"
#include "common/node/visible_gpus.h"
#include "worker/plan/job.h"

namespace ddp::worker {

/// Facts about this node's GPUs that are known without starting CUDA.
struct GpuFacts {
  std::string problem;  // why no GPU can be used: "there is no NVIDIA driver"; empty: no problem
  bool is_driver_broken = false;       // a driver is installed, but does not work or answer
  std::vector<Gpu> gpus;               // by PCI address, or as CUDA lists them
  std::vector<GpuUse> uses;            // who uses each of `gpus`; empty: not known
  std::vector<int> siblings{};         // the pids in `uses` that are ranks of this job
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  bool is_cuda_order = false;          // CUDA numbers the GPUs in the order of `gpus`
  CudaVersions cuda{};
};

/// The place of this rank among those of its node.
struct LocalPlace {
  int local_rank = 0;
  int local_world_size = 1;
  bool has_own_view = false;  // Slurm or MPI may show each rank only its own GPUs
};

struct DeviceChoice {
  std::optional<int> gpu;  // CUDA's number in this process; no value: CPU
  bool nccl = false;
  std::string name;                // "cpu", "cuda:1 (NVIDIA H200, 0000:dc:00.0)"
  std::string identity;            // the GPU's UUID or PCI address; empty: not known
  std::vector<std::string> notes;  // for the user, one line each
};

/// A rank takes the GPU with the number of its local rank. If every rank sees only a GPU of its own
/// (CUDA_VISIBLE_DEVICES), it takes that one. With gloo, ranks may share a GPU. Names and checks of
/// GPUs need `is_cuda_order`. Errors: UsageError, with the list of GPUs: more ranks than GPUs, no
/// such GPU, two ranks of NCCL on one, less free memory than the job asks for, a GPU that LibTorch
/// has no kernels for, or a GPU asked for when none can be used.
DeviceChoice choose_device(const DeviceJob& job, const LocalPlace& place, const GpuFacts& facts);

}  // namespace ddp::worker
