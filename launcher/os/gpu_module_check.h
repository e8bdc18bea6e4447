// Whether ddp-worker's module for GPUs can be opened, with all that torch's CUDA part and NCCL
// need. The probe opens it: the launcher itself loads nothing of LibTorch.
#pragma once

#include "launcher/plan/doctor/gpu_findings.h"

namespace ddp::launcher {

/// Looks beside the program, and in ../lib. Blocks: a second or two, some more from a cold disk, at
/// most kModuleLimit. Errors: SystemError.
CudaModuleHealth check_cuda_module();

inline constexpr std::chrono::seconds kModuleLimit{40};

}  // namespace ddp::launcher
