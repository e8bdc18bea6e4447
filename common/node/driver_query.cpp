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

using Fields = std::vector<std::string_view>;

template <typename Number = int>
Number number_at(const Fields& fields, std::size_t index) {
  return parse_whole<Number>(fields[index]).value_or(0);
}

Gpu gpu_of(const Fields& fields) {
  Gpu gpu;
  gpu.minor = number_at(fields, 1);
  gpu.pci = pci_address(std::string(fields[2]));
  gpu.uuid = fields[3];
  gpu.capability = number_at(fields, 4);
  gpu.model = fields[5];
  return gpu;
}

GpuUse use_of(const Fields& fields) {
  GpuUse use;
  use.free = parse_whole<std::int64_t>(fields[6]);
  use.total = number_at<std::int64_t>(fields, 7);
  for (std::size_t i = 8; i < fields.size(); ++i) {
    const int pid = number_at(fields, i);
    if (pid != ::getpid()) use.owners.push_back(pid);
  }
  return use;
}

void read_line(const Fields& fields, CudaDriver& cuda, DriverAnswer& answer) {
  if (fields[0] == kNvmlGpu && fields.size() >= 8) {
    answer.nvml.gpus.push_back(gpu_of(fields));
    answer.nvml.uses.push_back(use_of(fields));
  }
  if (fields[0] == kNvml && fields.size() == 3) {
    answer.nvml.driver = fields[1];
    answer.nvml.cuda = number_at(fields, 2);
  }
  if (fields[0] == kCudaGpu && fields.size() == 6) cuda.gpus.push_back(gpu_of(fields));
  if (fields[0] == kWithoutPeerAccess && fields.size() == 3)
    cuda.without_peer_access.emplace_back(number_at(fields, 1), number_at(fields, 2));
  if (fields[0] == kCuda && fields.size() == 4) {
    cuda.is_there = number_at(fields, 1) != 0;
    cuda.result = number_at(fields, 2);
    cuda.cuda = number_at(fields, 3);
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
  for (const Fields& fields : probe.lines)
    read_line(fields, cuda, answer);
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
