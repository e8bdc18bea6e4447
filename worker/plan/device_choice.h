// On which device a rank computes, and how its gradients travel. Pure: the facts are given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/node/driver_query.h"
#include "common/node/gpus.h"
#include "worker/plan/job.h"

namespace ddp::worker {

/// Facts about this node's GPUs, known before CUDA is asked.
struct GpuFacts {
  std::string problem;  // why none can be used, "there is no NVIDIA driver"; empty: no problem
  bool is_driver_broken = false;       // it is there and out of order, or could not be asked
  std::vector<Gpu> gpus;               // of the node: by PCI address, or CUDA's own list
  std::vector<GpuUse> uses;            // of each, or empty
  std::vector<int> siblings{};         // pids of `uses` that are ranks of this job
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  bool is_cuda_order = false;          // CUDA counts as `gpus` does: its list, or by PCI_BUS_ID
  CudaVersions cuda{};
};

/// The place of this rank among those of its node.
struct LocalPlace {
  int local_rank = 0;
  int local_world_size = 1;
  bool has_own_view = false;  // Slurm and MPI may show each rank the GPUs of its task only
};

struct DeviceChoice {
  std::optional<int> gpu;  // CUDA's number in this process; no value: CPU
  bool nccl = false;
  std::string name;                // "cpu", "cuda:1 (NVIDIA H200, 0000:dc:00.0)"
  std::string identity;            // the GPU's UUID or PCI address; empty: not known
  std::vector<std::string> notes;  // what the user should know, a line each
};

/// A rank takes the GPU of its local rank, or the only one that it sees if every rank sees one of
/// its own (CUDA_VISIBLE_DEVICES). With gloo, ranks may share a GPU. A GPU is named and checked
/// only if CUDA's order is that of the facts' lists. Errors: UsageError, with the list of GPUs:
/// more ranks than GPUs, no such GPU, two ranks of NCCL on one, less free memory than the job asks
/// for, a GPU that LibTorch has no kernels for, or a GPU asked for when none can be used.
DeviceChoice choose_device(const DeviceJob& job, const LocalPlace& place, const GpuFacts& facts);

}  // namespace ddp::worker
