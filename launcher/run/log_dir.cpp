#include "launcher/run/log_dir.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/files/files.h"
#include "launcher/plan/start/log_layout.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhereYouCan = ". Name a directory that you can write with --log-dir.";
constexpr std::size_t kRandomBytes = 4;  // eight characters, as torchrun's

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw UsageError("log directory: cannot make " + path.string() + ": " + why + kWhereYouCan);
}

}  // namespace

std::shared_ptr<const OwnedDir> make_log_dir(const JobSpec& spec, const std::string& user_run_id) {
  if (!wants_log_dir(spec.logs, spec.has_run_dir)) return nullptr;
  fs::path base;
  if (!spec.logs.directory.empty()) {
    base = fs::absolute(spec.logs.directory);
  } else {
    const std::string temporary = find_variable(spec.environment, "TMPDIR").value_or("");
    base = fs::path(temporary.empty() ? "/tmp" : temporary) /
           ("torchelastic_" + random_hex(kRandomBytes));
  }
  std::error_code error;
  fs::create_directories(base, error);
  if (error) refuse(base, error.message());
  const fs::path own = base / log_dir_name(user_run_id, random_hex(kRandomBytes));
  try {
    // For its owner alone, like torchrun's: workers may print anything.
    if (std::optional<OwnedDir> made = OwnedDir::make(own, S_IRWXU)) {
      log::info("logs in " + made->path().string());
      return std::make_shared<const OwnedDir>(std::move(*made));
    }
  } catch (const SystemError& refusal) {
    throw UsageError(std::string("log directory: ") + refusal.what() + kWhereYouCan);
  }
  refuse(own, std::strerror(EEXIST));
}

}  // namespace ddp::launcher
