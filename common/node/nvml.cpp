#include "common/node/nvml.h"

#include <dlfcn.h>

#include <array>
#include <string>

namespace ddp {
namespace {

// The part of NVML's interface that is used here, as its reference manual declares it. The names
// carry their version, so the layouts behind them stay.
using Device = void*;
constexpr int kSuccess = 0;

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Process {  // nvmlProcessInfo_t of ..._v3
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

struct Pci {  // nvmlPciInfo_t of ..._v3
  std::array<char, 16> old_bus_id;
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int device_id;
  unsigned int subsystem_id;
  std::array<char, 32> bus_id;
};

class Library {
 public:
  Library() : handle_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    is_up_ = call("nvmlInit_v2") == kSuccess;
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (is_up_) (void)call("nvmlShutdown");
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  [[nodiscard]] bool is_up() const { return is_up_; }

  /// NVML's result; -1 if there is no such function.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    void* const symbol = handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
    if (symbol == nullptr) return -1;
    return reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...);
  }

 private:
  void* handle_;
  bool is_up_ = false;
};

std::string text_of(const Library& nvml, const char* name, Device device) {
  std::array<char, 96> text{};
  const auto size = static_cast<unsigned int>(text.size() - 1);
  return nvml.call(name, device, text.data(), size) == kSuccess ? text.data() : "";
}

std::vector<int> owners_of(const Library& nvml, Device device) {
  std::array<Process, 64> processes{};
  auto count = static_cast<unsigned int>(processes.size());
  const int result =
      nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, processes.data());
  std::vector<int> owners;
  if (result != kSuccess) return owners;
  for (unsigned int i = 0; i < count && i < processes.size(); ++i)
    owners.push_back(static_cast<int>(processes[i].pid));
  return owners;
}

std::string pci_of(const Library& nvml, Device device) {
  Pci pci{};
  if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci) != kSuccess) return "";
  return pci_address(pci.bus_id.data());
}

}  // namespace

NvmlGpus ask_nvml() {
  NvmlGpus found;
  const Library nvml;
  unsigned int count = 0;
  if (!nvml.is_up() || nvml.call("nvmlDeviceGetCount_v2", &count) != kSuccess) return found;
  if (nvml.call("nvmlSystemGetCudaDriverVersion_v2", &found.cuda) != kSuccess) found.cuda = 0;
  std::array<char, 96> version{};
  if (nvml.call("nvmlSystemGetDriverVersion",
                version.data(),
                static_cast<unsigned int>(version.size() - 1)) == kSuccess)
    found.driver = version.data();
  for (unsigned int index = 0; index < count; ++index) {
    Device device = nullptr;
    // A GPU that a cgroup denies us is counted, but has no handle; CUDA does not see it either.
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &device) != kSuccess) continue;
    Gpu gpu;
    gpu.minor = static_cast<int>(index);
    gpu.pci = pci_of(nvml, device);
    gpu.uuid = text_of(nvml, "nvmlDeviceGetUUID", device);
    gpu.model = text_of(nvml, "nvmlDeviceGetName", device);
    int major = 0;
    int minor = 0;
    if (nvml.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) == kSuccess)
      gpu.capability = 10 * major + minor;
    GpuUse use;
    Memory memory{};
    if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == kSuccess) {
      use.free = static_cast<std::int64_t>(memory.free);
      use.total = static_cast<std::int64_t>(memory.total);
    }
    use.owners = owners_of(nvml, device);
    found.gpus.push_back(gpu);
    found.uses.push_back(use);
  }
  return found;
}

}  // namespace ddp
