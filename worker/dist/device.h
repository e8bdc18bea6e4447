// The device of this rank, chosen and made current before CUDA is first called.
// Promises: no rank allocates on a device that is not its own; on a node without GPUs neither CUDA
// nor its module is loaded; a note says what `auto` could not use.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/node/identity.h"
#include "worker/plan/job.h"

namespace ddp::worker {

class CudaModule;

/// Whether sums over the ranks of a node go through shared memory.
enum class SharedMemory { never, if_possible, required };

struct Device {
  at::Device device{at::kCPU};
  bool nccl = false;                                 // gradients go by NCCL, on CUDA
  SharedMemory shared_memory = SharedMemory::never;  // on CPUs
  std::string name = "cpu";
  std::string identity;              // of a GPU: equal for two ranks only if they share it
  std::vector<std::string> notes;    // for the user, one line each
  const CudaModule* cuda = nullptr;  // loaded; null on CPUs
};

/// Call it before any tensor is made: see the trap in cuda_module.h.
/// Errors: UsageError, with the list of GPUs, when the device that the job asks for cannot be used.
Device open_device(const DeviceJob& job,
                   const WorkerIdentity& self,
                   const Environment& environment);

/// Identifies the GPU and its node as NCCL does, which refuses two ranks on one GPU. Empty: not
/// known.
std::string nccl_gpu_id(const Device& device, const Environment& environment);

/// Bytes of GPU memory that LibTorch's allocator has reserved for this process; 0 on a CPU. Does
/// not wait for the device.
std::int64_t held_bytes(const at::Device& device);

/// Free bytes of a device's memory. Errors: c10::Error for a CPU.
std::int64_t free_bytes(const at::Device& device);

/// Sets LibTorch's own switches: precision of matrix products, cuDNN's search, deterministic
/// kernels.
void set_math(const MathJob& math);

}  // namespace ddp::worker
