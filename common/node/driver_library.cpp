#include "common/node/driver_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace ddp {
namespace {

// The part of CUDA's driver interface that is used here, as its manual declares it. Numbers are
// those of CUresult and CUdevice_attribute in cuda.h.
constexpr int kDone = 0;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;
constexpr int kStub = 34;
constexpr int kNoDevice = 100;
constexpr int kNotReady = 802;
constexpr int kMismatch = 803;
constexpr int kUnknownError = 999;

struct Uuid {
  std::array<unsigned char, 16> bytes;
};

class CudaLibrary {
 public:
  // Never closed: the driver has threads by then.
  CudaLibrary() : handle_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {}

  [[nodiscard]] bool is_there() const { return handle_ != nullptr; }

  /// A CUresult; not success when there is no such function.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    void* const symbol = ::dlsym(handle_, name);
    if (symbol == nullptr) return kUnknownError;
    return reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...);
  }

 private:
  void* handle_;
};

/// "GPU-aabbccdd-...", as NVML and CUDA_VISIBLE_DEVICES have it.
std::string to_text(const Uuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

Gpu describe(const CudaLibrary& library, int index) {
  Gpu gpu;
  gpu.minor = index;
  int device = 0;
  if (library.call("cuDeviceGet", &device, index) != kDone) return gpu;
  std::array<char, 96> text{};
  const int size = static_cast<int>(text.size() - 1);
  if (library.call("cuDeviceGetName", text.data(), size, device) == kDone) gpu.model = text.data();
  if (library.call("cuDeviceGetPCIBusId", text.data(), size, device) == kDone)
    gpu.pci = pci_address(text.data());
  Uuid uuid{};
  if (library.call("cuDeviceGetUuid_v2", &uuid, device) == kDone) gpu.uuid = to_text(uuid);
  int major = 0;
  int minor = 0;
  if (library.call("cuDeviceGetAttribute", &major, kCapabilityMajor, device) == kDone &&
      library.call("cuDeviceGetAttribute", &minor, kCapabilityMinor, device) == kDone)
    gpu.capability = 10 * major + minor;
  return gpu;
}

/// Whether one of the two cannot access the other: NCCL does not copy between them directly then.
bool are_without_peer_access(const CudaLibrary& library, int one, int other) {
  int forth = 0;
  int back = 0;
  if (library.call("cuDeviceCanAccessPeer", &forth, one, other) != kDone) return false;
  if (library.call("cuDeviceCanAccessPeer", &back, other, one) != kDone) return false;
  return forth == 0 || back == 0;
}

}  // namespace

bool CudaDriver::is_broken() const {
  return is_there && result != kDone && result != kNoDevice;
}

CudaDriver ask_cuda_driver() {
  CudaDriver driver;
  const CudaLibrary library;
  driver.is_there = library.is_there();
  if (!driver.is_there) return driver;
  driver.result = library.call("cuInit", 0U);
  if (library.call("cuDriverGetVersion", &driver.cuda) != kDone) driver.cuda = 0;
  int count = 0;
  if (driver.result != kDone || library.call("cuDeviceGetCount", &count) != kDone) return driver;
  for (int index = 0; index < count; ++index)
    driver.gpus.push_back(describe(library, index));
  // Its devices are the numbers below the count (cuDeviceGet).
  for (int one = 0; one < count; ++one) {
    for (int other = one + 1; other < count; ++other) {
      if (are_without_peer_access(library, one, other))
        driver.without_peer_access.emplace_back(one, other);
    }
  }
  return driver;
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
