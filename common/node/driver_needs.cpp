#include "common/node/driver_needs.h"

#include <array>

namespace ddp {
namespace {

/// The driver and the GPUs that a CUDA needs, by its major number. Source: CUDA's release notes,
/// and "Minor Version Compatibility" of CUDA Compatibility.
struct CudaNeeds {
  int major;
  int driver;
  int capability;
};
constexpr std::array<CudaNeeds, 2> kCudaNeeds{{{12, 525, 50}, {13, 580, 75}}};

const CudaNeeds* needs_of(int cuda) {
  for (const CudaNeeds& needs : kCudaNeeds)
    if (needs.major == cuda / 1000) return &needs;
  return nullptr;
}

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace

std::string why_too_old(const CudaVersions& versions) {
  // Within a major number newer libraries run on older drivers.
  const bool is_known = versions.of_driver > 0 && versions.of_libtorch > 0;
  if (!is_known || versions.of_driver / 1000 >= versions.of_libtorch / 1000) return "";
  const CudaNeeds* const needs = needs_of(versions.of_libtorch);
  return "the NVIDIA driver " + versions.driver + " knows CUDA " + cuda_text(versions.of_driver) +
         ", LibTorch is built with " + cuda_text(versions.of_libtorch) + ": update the driver" +
         (needs == nullptr ? "" : " to " + std::to_string(needs->driver) + " or newer");
}

std::string why_no_kernels(int capability, int of_libtorch) {
  const CudaNeeds* const needs = needs_of(of_libtorch);
  if (needs == nullptr || capability == 0 || capability >= needs->capability) return "";
  return "has compute capability " + capability_text(capability) + ", and LibTorch's CUDA " +
         cuda_text(of_libtorch) + " needs " + capability_text(needs->capability);
}

std::string cuda_text(int cuda) {
  return std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
}

}  // namespace ddp
