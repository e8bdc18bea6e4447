#include "common/node/driver_query.h"

#include <unistd.h>

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
      probe_body(driver_question(start), kDriverLimit + std::chrono::seconds(1)), kDriverLimit));
}

}  // namespace ddp
