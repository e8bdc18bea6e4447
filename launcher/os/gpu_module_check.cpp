#include "launcher/os/gpu_module_check.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "common/node/gpu_module_path.h"
#include "common/node/helper_process.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "launcher/os/program.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kCuda = "cuda";
constexpr std::string_view kError = "error";
constexpr std::string_view kEnd = "end";

/// Empty: it can be opened.
std::string why_not(const std::filesystem::path& library) {
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return "";
  return ::dlerror();
}

/// cuDNN opens its parts by name when they are first used. libcudnn_graph is the one that all of it
/// needs. Empty: it can be opened, or there is no cuDNN.
std::string why_no_cudnn_part(void* module) {
  void* const symbol = ::dlsym(module, "cudnnGetVersion");
  Dl_info info{};
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return "";
  const std::filesystem::path cudnn(info.dli_fname);
  constexpr std::string_view kName = "libcudnn";
  const std::string name = cudnn.filename();
  if (!name.starts_with("libcudnn.")) return "";
  return why_not(cudnn.parent_path() / ("libcudnn_graph" + name.substr(kName.size())));
}

std::string open_module() {
  const std::filesystem::path path = find_cuda_module();
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr) return std::string(kError) + "\t" + ::dlerror() + "\n";
  std::string text;
  // The runtime's own version; the driver is not asked.
  void* const version = ::dlsym(module, "cudaRuntimeGetVersion");
  int cuda = 0;
  if (version != nullptr && reinterpret_cast<int (*)(int*)>(version)(&cuda) == 0)
    text += std::string(kCuda) + "\t" + std::to_string(cuda) + "\n";
  const std::string part = why_no_cudnn_part(module);
  if (!part.empty()) text += std::string(kError) + "\t" + part + "\n";
  return text;
}

/// Runs in the helper.
void tell(int fd) noexcept {
  end_with_parent(kModuleLimit + std::chrono::seconds(1));
  write_all(fd, open_module() + std::string(kEnd) + "\n");
}

}  // namespace

CudaModuleHealth check_cuda_module() {
  CudaModuleHealth health;
  std::error_code ignored;
  health.is_wanted = !beside_this_program("ddp-worker").empty();
  health.is_built = std::filesystem::exists(find_cuda_module(), ignored);
  if (!health.is_built) return health;
  const HelperAnswer told = ask_helper(tell, kModuleLimit);
  bool is_end = false;
  for (const std::string_view line : split(told.text, '\n')) {
    const std::size_t tab = line.find('\t');
    const std::string_view kind = line.substr(0, tab);
    if (kind == kEnd) is_end = true;
    if (tab == std::string_view::npos) continue;
    if (kind == kCuda) health.cuda = parse_whole<int>(line.substr(tab + 1)).value_or(0);
    if (kind == kError) health.error = line.substr(tab + 1);
  }
  if (is_end) return health;
  health.error = told.is_whole
                     ? "a library of it ended the process that opened it"
                     : "it was not open within " + std::to_string(kModuleLimit.count()) + " s";
  return health;
}

}  // namespace ddp::launcher
