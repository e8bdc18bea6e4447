#include "common/node/driver_query.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "common/node/probe_process.h"
#include "common/text/parse_whole.h"

namespace ddp {
namespace {

// The first part of a line of the probe: what the line is about.
constexpr std::string_view kNvmlGpu = "nvml-gpu";
constexpr std::string_view kNvml = "nvml";
constexpr std::string_view kCudaGpu = "cuda-gpu";
constexpr std::string_view kWithoutPeerAccess = "without-peer-access";
constexpr std::string_view kCuda = "cuda";

using Parts = std::vector<std::string_view>;

template <typename Number = int>
Number number_at(const Parts& parts, std::size_t index) {
  return parse_whole<Number>(parts[index]).value_or(0);
}

Gpu gpu_of(const Parts& parts) {
  Gpu gpu;
  gpu.minor = number_at(parts, 1);
  gpu.pci = pci_address(std::string(parts[2]));
  gpu.uuid = parts[3];
  gpu.capability = number_at(parts, 4);
  gpu.model = parts[5];
  return gpu;
}

GpuUse use_of(const Parts& parts) {
  GpuUse use;
  use.free = parse_whole<std::int64_t>(parts[6]);
  use.total = number_at<std::int64_t>(parts, 7);
  for (std::size_t i = 8; i < parts.size(); ++i) {
    const int pid = number_at(parts, i);
    if (pid != ::getpid()) use.owners.push_back(pid);
  }
  return use;
}

void read_line(const Parts& parts, CudaDriver& cuda, DriverAnswer& answer) {
  if (parts[0] == kNvmlGpu && parts.size() >= 8) {
    answer.nvml.gpus.push_back(gpu_of(parts));
    answer.nvml.uses.push_back(use_of(parts));
  }
  if (parts[0] == kNvml && parts.size() == 3) {
    answer.nvml.driver = parts[1];
    answer.nvml.cuda = number_at(parts, 2);
  }
  if (parts[0] == kCudaGpu && parts.size() == 6) cuda.gpus.push_back(gpu_of(parts));
  if (parts[0] == kWithoutPeerAccess && parts.size() == 3)
    cuda.without_peer_access.emplace_back(number_at(parts, 1), number_at(parts, 2));
  if (parts[0] == kCuda && parts.size() == 4) {
    cuda.is_there = number_at(parts, 1) != 0;
    cuda.result = number_at(parts, 2);
    cuda.cuda = number_at(parts, 3);
    answer.cuda = cuda;
  }
}

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

const std::vector<Gpu>& DriverAnswer::gpus() const {
  return nvml.gpus.empty() && cuda ? cuda->gpus : nvml.gpus;
}

std::string DriverAnswer::version() const {
  if (!nvml.driver.empty()) return nvml.driver;
  return cuda && cuda->is_there ? "of CUDA " + cuda_text(cuda->cuda) : "";
}

std::string DriverAnswer::problem() const {
  if (!why_no_answer.empty()) return why_no_answer;
  return cuda ? why_unusable(*cuda) : "";
}

bool DriverAnswer::is_broken() const {
  return !why_no_answer.empty() || (cuda && cuda->is_broken());
}

std::vector<std::string> driver_question(CudaStart start) {
  if (start == CudaStart::never) return {"driver"};
  return {"driver", start == CudaStart::always ? "cuda" : "cuda-without-nvml"};
}

DriverAnswer read_driver(const HelperAnswer& helper) {
  const ProbeAnswer probe = read_probe(helper.text);
  DriverAnswer answer;
  CudaDriver cuda;
  for (const Parts& parts : probe.lines)
    read_line(parts, cuda, answer);
  if (probe.is_whole) return answer;
  if (probe.why_not_started == ENOENT) {
    answer.cuda = cuda;  // where there is no glibc there is no driver
  } else if (probe.why_not_started != 0) {
    answer.why_no_answer =
        "the NVIDIA driver cannot be asked, as a program in memory cannot be executed here (" +
        std::generic_category().message(probe.why_not_started) + ")";
  } else if (helper.is_whole) {
    answer.why_no_answer = "the NVIDIA driver's library ended the process that asked it. See dmesg";
  } else {
    answer.why_no_answer = "the NVIDIA driver has not answered within " +
                           std::to_string(kDriverLimit.count()) +
                           " s. See nvidia-smi and dmesg; where it is only slow to start, let "
                           "nvidia-persistenced keep it loaded";
  }
  return answer;
}

DriverAnswer ask_driver(CudaStart start) {
  return read_driver(ask_helper(
      probe(driver_question(start), kDriverLimit + std::chrono::seconds(1)), kDriverLimit));
}

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
