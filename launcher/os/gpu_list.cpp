#include "launcher/os/gpu_list.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/node/driver_library.h"
#include "common/node/nvml.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "launcher/os/process.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kReapWait(100);
constexpr std::string_view kDriver = "driver";
constexpr std::string_view kProblem = "problem";

/// What NVML knows; else CUDA, whose GPUs have no numbers of their own.
GpuList ask_libraries() {
  GpuList list;
  NvmlGpus nvml = ask_nvml();
  list.gpus = std::move(nvml.gpus);
  list.driver = nvml.driver;
  if (!list.gpus.empty()) return list;
  // The launcher itself says which of them are visible.
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  CudaDriver cuda = ask_cuda_driver();
  list.problem = why_unusable(cuda);
  list.gpus = std::move(cuda.gpus);
  list.driver = "of CUDA " + cuda_text(cuda.cuda);
  return list;
}

/// A line each; no part of it has a tab.
std::string to_lines(const GpuList& list) {
  std::string text;
  for (const Gpu& gpu : list.gpus) {
    text += std::to_string(gpu.minor) + "\t" + gpu.pci + "\t" + gpu.uuid + "\t" +
            std::to_string(gpu.capability) + "\t" + gpu.model + "\n";
  }
  text += std::string(kDriver) + "\t" + list.driver + "\n";
  if (!list.problem.empty()) text += std::string(kProblem) + "\t" + list.problem + "\n";
  return text;
}

GpuList from_lines(std::string_view text) {
  GpuList list;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> parts = split(line, '\t');
    if (parts.size() == 2 && parts[0] == kDriver) list.driver = parts[1];
    if (parts.size() == 2 && parts[0] == kProblem) list.problem = parts[1];
    if (parts.size() != 5) continue;
    Gpu gpu;
    gpu.minor = parse_whole<int>(parts[0]).value_or(0);
    gpu.pci = parts[1];
    gpu.uuid = parts[2];
    gpu.capability = parse_whole<int>(parts[3]).value_or(0);
    gpu.model = parts[4];
    list.gpus.push_back(gpu);
  }
  return list;
}

/// Runs in the helper's process.
void answer(int fd) {
  end_with_parent(kDriverLimit);
  const std::string text = to_lines(ask_libraries());
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t more = ::write(fd, text.data() + sent, text.size() - sent);
    if (more < 0) return;
    sent += static_cast<std::size_t>(more);
  }
}

/// All that comes before the other end is closed; nothing: it is not closed by `deadline`.
std::optional<std::string> read_until(int fd, std::chrono::steady_clock::time_point deadline) {
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd entry{fd, POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&entry, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return {};
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace

bool is_wsl() {
  return ::access("/dev/dxg", F_OK) == 0;
}

GpuList ask_driver() {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe2", "question about GPUs");
  const Descriptor read_end(ends[0]);
  pid_t pid = 0;
  {
    const Descriptor write_end(ends[1]);
    pid = fork_helper(answer, write_end.fd());
  }
  const auto text = read_until(read_end.fd(), std::chrono::steady_clock::now() + kDriverLimit);
  signal_process(pid, SIGKILL);
  reap_within(pid, kReapWait);
  GpuList none;
  if (text) {
    GpuList list = from_lines(*text);
    if (!list.driver.empty() || !list.problem.empty()) return list;
    none.problem = "the NVIDIA driver's library ended the process that asked it. See dmesg";
    return none;
  }
  none.problem = "the NVIDIA driver has not answered within " +
                 std::to_string(kDriverLimit.count()) + " s. See nvidia-smi and dmesg";
  return none;
}

}  // namespace ddp::launcher
