#include "worker/train/torch_version.h"

#include <dlfcn.h>
#include <torch/version.h>

#include <cstdint>

#include "common/error.h"
#include "common/version.h"

namespace ddp::worker {
namespace {

// Trap: at::show_config() has the version too, but asks whether there is CUDA. LibTorch remembers
// the answer, which would be "no" before our CUDA module is loaded. The symbol is looked up by
// name, because an older LibTorch may lack it.
std::string library_version() {
  void* const symbol = ::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version");
  if (symbol == nullptr) return "of an unknown version";
  const std::uint64_t version = reinterpret_cast<std::uint64_t (*)()>(symbol)();
  const auto byte = [version](int shift) { return std::to_string((version >> shift) & 0xff); };
  return byte(56) + "." + byte(48) + "." + byte(40);
}

}  // namespace

void check_torch_version() {
  const std::string library = library_version();
  if (library == TORCH_VERSION) return;
  throw UsageError("LibTorch " + library + " is loaded, but this program was built for " +
                   TORCH_VERSION +
                   ". Unset LD_LIBRARY_PATH, or build again with DDP_TORCH set to that release.");
}

std::string version_text() {
  return std::string("ddp-worker ") + DDP_VERSION + ", LibTorch " + library_version();
}

}  // namespace ddp::worker
