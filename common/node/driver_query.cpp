#include "common/node/driver_query.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "common/node/driver_needs.h"
#include "common/node/helper_process.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp {
namespace {

// What the helper tells: a line each, its parts separated by tabs, which no part has.
constexpr std::string_view kNvmlGpu = "nvml-gpu";
constexpr std::string_view kNvml = "nvml";
constexpr std::string_view kCudaGpu = "cuda-gpu";
constexpr std::string_view kWithoutPeerAccess = "without-peer-access";
constexpr std::string_view kCuda = "cuda";
constexpr std::string_view kEnd = "end";

std::string to_line(std::string_view kind, const std::vector<std::string>& parts) {
  std::string line(kind);
  for (const std::string& part : parts)
    line += "\t" + part;
  return line + "\n";
}

std::vector<std::string> parts_of(const Gpu& gpu) {
  return {std::to_string(gpu.minor), gpu.pci, gpu.uuid, std::to_string(gpu.capability), gpu.model};
}

std::string to_lines(const NvmlGpus& nvml) {
  std::string text;
  for (std::size_t i = 0; i < nvml.gpus.size(); ++i) {
    const GpuUse& use = nvml.uses[i];
    std::vector<std::string> parts = parts_of(nvml.gpus[i]);
    parts.push_back(use.free ? std::to_string(*use.free) : "");
    parts.push_back(std::to_string(use.total));
    for (const int pid : use.owners)
      parts.push_back(std::to_string(pid));
    text += to_line(kNvmlGpu, parts);
  }
  return text + to_line(kNvml, {nvml.driver, std::to_string(nvml.cuda)});
}

std::string to_lines(const CudaDriver& cuda) {
  std::string text;
  for (const Gpu& gpu : cuda.gpus)
    text += to_line(kCudaGpu, parts_of(gpu));
  for (const auto& [one, other] : cuda.without_peer_access)
    text += to_line(kWithoutPeerAccess, {std::to_string(one), std::to_string(other)});
  return text + to_line(kCuda,
                        {std::to_string(static_cast<int>(cuda.is_there)),
                         std::to_string(cuda.result),
                         std::to_string(cuda.cuda)});
}

/// Runs in the helper. What is known is told at once, as the next question may have no answer.
template <CudaStart kStart>
void tell(int fd) noexcept {
  end_with_parent(kDriverLimit + std::chrono::seconds(1));
  const NvmlGpus nvml = ask_nvml();
  write_all(fd, to_lines(nvml));
  if (kStart == CudaStart::always ||
      (kStart == CudaStart::where_nvml_shows_no_gpu && nvml.gpus.empty())) {
    // The asker says which GPUs are visible.
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    write_all(fd, to_lines(ask_cuda_driver()));
  }
  write_all(fd, to_line(kEnd, {}));
}

HelperBody body_for(CudaStart start) {
  switch (start) {
    case CudaStart::never:
      return tell<CudaStart::never>;
    case CudaStart::where_nvml_shows_no_gpu:
      return tell<CudaStart::where_nvml_shows_no_gpu>;
    case CudaStart::always:
      break;
  }
  return tell<CudaStart::always>;
}

using Parts = std::vector<std::string_view>;

template <typename Number = int>
Number number_at(const Parts& parts, std::size_t index) {
  return parse_whole<Number>(parts[index]).value_or(0);
}

Gpu gpu_of(const Parts& parts) {
  Gpu gpu;
  gpu.minor = number_at(parts, 1);
  gpu.pci = parts[2];
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

/// Whether the helper has told all.
bool read_lines(std::string_view text, DriverAnswer& answer) {
  CudaDriver cuda;
  bool is_whole = false;
  for (const std::string_view line : split(text, '\n')) {
    const Parts parts = split(line, '\t');
    if (parts[0] == kEnd) is_whole = true;
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
  return is_whole;
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

DriverAnswer ask_driver(CudaStart start) {
  const HelperAnswer told = ask_helper(body_for(start), kDriverLimit);
  DriverAnswer answer;
  if (read_lines(told.text, answer)) return answer;
  answer.why_no_answer =
      told.is_whole
          ? "the NVIDIA driver's library ended the process that asked it. See dmesg"
          : "the NVIDIA driver has not answered within " + std::to_string(kDriverLimit.count()) +
                " s. See nvidia-smi and dmesg; where it is only slow to start, let "
                "nvidia-persistenced keep it loaded";
  return answer;
}

}  // namespace ddp
