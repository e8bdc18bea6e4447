#include "worker/train/versions.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include "common/error.h"

namespace ddp::worker {
namespace {

// at::show_config() is compiled into the library and tells its own version as
// "TORCH_VERSION=2.11.0".
std::string library_version() {
  const std::string config = at::show_config();
  const std::string key = "TORCH_VERSION=";
  const std::size_t at = config.find(key);
  if (at == std::string::npos) return "unknown";
  const std::size_t begin = at + key.size();
  return config.substr(begin, config.find_first_of(", \n", begin) - begin);
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
