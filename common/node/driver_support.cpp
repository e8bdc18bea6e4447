#include "common/node/driver_support.h"

#include <array>

namespace ddp {
namespace {

// Numbers of CUresult in cuda.h.
constexpr int kDone = 0;
constexpr int kStub = 34;
constexpr int kNoDevice = 100;
constexpr int kNotReady = 802;
constexpr int kMismatch = 803;
constexpr int kUnknownError = 999;

/// The oldest driver and GPU that a release of CUDA supports, by its major number. Source: CUDA's
/// release notes, and "Minor Version Compatibility" of CUDA Compatibility.
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

bool CudaDriver::is_broken() const {
  return is_there && result != kDone && result != kNoDevice;
}

std::string why_unusable(const CudaDriver& driver) {
  if (!driver.is_there) return "there is no NVIDIA driver (libcuda.so.1 is not found)";
  if (driver.result == kDone && !driver.gpus.empty()) return "";
  const std::string subject = "the NVIDIA driver (cuInit: " + std::to_string(driver.result) + ") ";
  switch (driver.result) {
    case kStub:
      return subject +
             "is not one: libcuda.so.1 is the stub of a CUDA toolkit, to link with. Take it "
             "out of LD_LIBRARY_PATH";
    case kDone:
    case kNoDevice:
      return subject +
             "finds no GPU. See nvidia-smi; a container or a virtual machine must be given "
             "one (docker run --gpus all)";
    case kNotReady:
      return subject +
             "is not ready yet. Where GPUs are joined by NVSwitch, start "
             "nvidia-fabricmanager";
    case kMismatch:
      return subject +
             "and the one in the kernel are of two versions. Restart the machine after an "
             "update of the driver; in a container, use the host's libcuda.so.1";
    case kUnknownError:
      return subject +
             "fails for a reason that it does not know. See dmesg; load its modules again "
             "(nvidia_uvm), or restart the machine";
    default:
      return subject + "fails. The number is explained at CUresult, in CUDA's driver API";
  }
}

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
