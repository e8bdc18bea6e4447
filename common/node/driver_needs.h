// What a CUDA needs of the driver and of a GPU. Pure.
#pragma once

#include <string>

namespace ddp {

/// The CUDA versions of driver and LibTorch, as CUDA writes them: 13000 is 13.0. 0: not known.
struct CudaVersions {
  std::string driver;  // "580.65.06"
  int of_driver = 0;
  int of_libtorch = 0;
};

/// "the NVIDIA driver ... knows CUDA ..."; empty when the versions fit.
std::string why_too_old(const CudaVersions& versions);

/// "has compute capability 7.0, and LibTorch's CUDA 13.0 needs 7.5"; empty when LibTorch has
/// kernels for a GPU of that capability (90 for 9.0), or one of both is not known.
std::string why_no_kernels(int capability, int of_libtorch);

/// "13.0" of 13000.
std::string cuda_text(int cuda);

}  // namespace ddp
