#include "common/node/gpu_module_path.h"

#include <dlfcn.h>

#include <cstddef>
#include <span>
#include <system_error>
#include <vector>

namespace ddp {
namespace {

/// Where this program finds its libraries (its RUNPATH, LD_LIBRARY_PATH, the system's).
std::vector<std::filesystem::path> library_directories() {
  void* const self = ::dlopen(nullptr, RTLD_NOW);
  Dl_serinfo head{};
  if (self == nullptr || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &head) != 0) return {};
  std::vector<std::max_align_t> room(head.dls_size / sizeof(std::max_align_t) + 1);
  auto* const info = reinterpret_cast<Dl_serinfo*>(room.data());
  *info = head;
  if (::dlinfo(self, RTLD_DI_SERINFOSIZE, info) != 0) return {};
  if (::dlinfo(self, RTLD_DI_SERINFO, info) != 0) return {};
  const std::span<const Dl_serpath> paths(info->dls_serpath, info->dls_cnt);
  std::vector<std::filesystem::path> directories;
  for (const Dl_serpath& path : paths)
    directories.emplace_back(path.dls_name);
  return directories;
}

}  // namespace

std::filesystem::path find_cuda_module() {
  constexpr const char* kName = "libddp-worker-cuda.so";
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path installed = program.parent_path().parent_path() / "lib";
  std::vector<std::filesystem::path> directories{program.parent_path(), installed};
  for (const std::filesystem::path& directory : library_directories())
    directories.push_back(directory);
  for (const std::filesystem::path& directory : directories)
    if (std::filesystem::exists(directory / kName, ignored)) return directory / kName;
  return installed / kName;
}

}  // namespace ddp
