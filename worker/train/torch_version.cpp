#include "worker/train/torch_version.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <array>
#include <cstdint>
#include <optional>

#include "common/error.h"
#include "common/version.h"

namespace ddp::worker {
namespace {

// Trap: at::show_config() has the version, too, but it asks whether there is CUDA, and LibTorch
// would remember the answer "no" from before our CUDA module is loaded. The symbol is looked up by
// name, because an older LibTorch may lack it.
/// Major, minor and patch version; no value if the library does not have the symbol.
std::optional<std::array<int, 3>> library_release() {
  void* const symbol = ::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version");
  if (symbol == nullptr) return std::nullopt;
  const std::uint64_t version = reinterpret_cast<std::uint64_t (*)()>(symbol)();
  const auto byte = [version](int shift) { return static_cast<int>((version >> shift) & 0xff); };
  return std::array{byte(56), byte(48), byte(40)};
}

}  // namespace

std::string torch_version() {
  const auto release = library_release();
  return release ? fmt::format("{}", fmt::join(*release, ".")) : "of an unknown version";
}

void check_torch_version() {
  const auto release = library_release();
  if (release && (*release)[0] == TORCH_VERSION_MAJOR && (*release)[1] == TORCH_VERSION_MINOR)
    return;
  throw UsageError("LibTorch " + torch_version() + " is loaded, but this program was built for " +
                   TORCH_VERSION +
                   ". Unset LD_LIBRARY_PATH, or build again with DDP_TORCH set to that release.");
}

std::string version_text() {
  return std::string("ddp-worker ") + DDP_VERSION + ", LibTorch " + torch_version();
}

}  // namespace ddp::worker
