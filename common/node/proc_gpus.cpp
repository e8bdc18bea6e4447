#include "common/node/proc_gpus.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "common/files/files.h"
#include "common/text/parse_whole.h"

namespace ddp {
namespace {

/// N of /dev/nvidiaN; other files of the driver have no number.
std::optional<int> gpu_number(std::string_view name) {
  return parse_whole<int>(name.starts_with("nvidia") ? name.substr(6) : "", 0, 99999);
}

std::vector<Gpu> described_gpus() {
  std::vector<Gpu> gpus;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    std::optional<Gpu> gpu = read_gpu(read_file(entry.path() / "information").value_or(""));
    if (!gpu) continue;
    const std::string text =
        read_file("/sys/bus/pci/devices/" + gpu->pci + "/numa_node").value_or("");
    std::string_view node = text;
    gpu->numa_node = take_number<int>(node).value_or(-1);
    gpus.push_back(*gpu);
  }
  return gpus;
}

}  // namespace

std::vector<Gpu> find_gpus() {
  const std::vector<Gpu> described = described_gpus();
  std::vector<Gpu> gpus;
  // Not a directory_iterator: a path for each of a hundred devices would slow the launcher's start.
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir("/dev"), ::closedir);
  while (const dirent* const entry = list ? ::readdir(list.get()) : nullptr) {
    const std::optional<int> number = gpu_number(static_cast<const char*>(entry->d_name));
    if (!number) continue;
    Gpu gpu;
    gpu.minor = *number;
    // A container may see descriptions of GPUs that it may not use.
    for (const Gpu& candidate : described)
      if (candidate.minor == *number) gpu = candidate;
    gpus.push_back(gpu);
  }
  std::ranges::sort(gpus, [](const Gpu& a, const Gpu& b) {
    return std::tie(a.pci, a.minor) < std::tie(b.pci, b.minor);
  });
  return gpus;
}

std::string find_gpu_driver() {
  return read_driver_version(read_file("/proc/driver/nvidia/version").value_or(""));
}

bool is_wsl() {
  return ::access("/dev/dxg", F_OK) == 0;
}

}  // namespace ddp
