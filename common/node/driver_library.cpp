#include "common/node/driver_library.h"

namespace ddp {
namespace {

// Numbers of CUresult in cuda.h.
constexpr int kDone = 0;
constexpr int kStub = 34;
constexpr int kNoDevice = 100;
constexpr int kNotReady = 802;
constexpr int kMismatch = 803;
constexpr int kUnknownError = 999;

}  // namespace

bool CudaDriver::is_broken() const {
  return is_there && result != kDone && result != kNoDevice;
}

std::string why_unusable(const CudaDriver& driver) {
  if (!driver.is_there) return "there is no NVIDIA driver (libcuda.so.1 is not found)";
  if (driver.result == kDone && !driver.gpus.empty()) return "";
  const std::string told = "the NVIDIA driver (cuInit: " + std::to_string(driver.result) + ") ";
  switch (driver.result) {
    case kStub:
      return told +
             "is not one: libcuda.so.1 is the stub of a CUDA toolkit, to link with. Take it "
             "out of LD_LIBRARY_PATH";
    case kDone:
    case kNoDevice:
      return told +
             "finds no GPU. See nvidia-smi; a container or a virtual machine must be given "
             "one (docker run --gpus all)";
    case kNotReady:
      return told +
             "is not ready yet. Where GPUs are joined by NVSwitch, start "
             "nvidia-fabricmanager";
    case kMismatch:
      return told +
             "and the one in the kernel are of two versions. Restart the machine after an "
             "update of the driver; in a container, use the host's libcuda.so.1";
    case kUnknownError:
      return told +
             "fails for a reason that it does not know. See dmesg; load its modules again "
             "(nvidia_uvm), or restart the machine";
    default:
      return told + "fails. The number is explained at CUresult, in CUDA's driver API";
  }
}

}  // namespace ddp
