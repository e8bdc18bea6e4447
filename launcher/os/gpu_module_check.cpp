#include "launcher/os/gpu_module_check.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "common/error.h"
#include "common/node/helper_process.h"
#include "common/node/packaged_worker.h"
#include "common/node/probe_process.h"
#include "common/text/parse_whole.h"
#include "launcher/os/program.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kCuda = "cuda";
constexpr std::string_view kError = "error";

/// Beside the program (a build directory), in ../lib (an installation), or in the package of pip.
/// In ../lib when there is none. Not find_cuda_module(): it asks the dynamic loader, which a static
/// program has not.
std::filesystem::path find_module() {
  constexpr const char* kName = "libddp-worker-cuda.so";
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path beside = program.parent_path() / kName;
  if (std::filesystem::exists(beside, ignored)) return beside;
  const std::filesystem::path installed = program.parent_path().parent_path() / "lib" / kName;
  if (std::filesystem::exists(installed, ignored)) return installed;
  try {
    return find_packaged_worker(program).program.parent_path().parent_path() / "lib" / kName;
  } catch (const UsageError&) {
    return installed;
  }
}

}  // namespace

CudaModuleHealth check_cuda_module() {
  CudaModuleHealth health;
  std::error_code ignored;
  health.is_wanted = !beside_this_program("ddp-worker").empty();
  const std::filesystem::path module = find_module();
  health.is_built = std::filesystem::exists(module, ignored);
  if (!health.is_built) return health;
  const std::chrono::seconds limit = kModuleLimit + std::chrono::seconds(1);
  const HelperAnswer told = ask_helper(probe({"module", module}, limit), kModuleLimit);
  const ProbeAnswer answer = read_probe(told.text);
  for (const auto& parts : answer.lines) {
    if (parts.size() != 2) continue;
    if (parts[0] == kCuda) health.cuda = parse_whole<int>(parts[1]).value_or(0);
    if (parts[0] == kError) health.error = parts[1];
  }
  if (answer.is_whole) return health;
  if (answer.why_not_started != 0) {
    health.error = "it cannot be tried: " + std::generic_category().message(answer.why_not_started);
    return health;
  }
  health.error = told.is_whole
                     ? "a library of it ended the process that opened it"
                     : "it was not open within " + std::to_string(kModuleLimit.count()) + " s";
  return health;
}

}  // namespace ddp::launcher
