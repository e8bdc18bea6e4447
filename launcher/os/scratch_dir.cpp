#include "launcher/os/scratch_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/error.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

void make_own(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw SystemError(system_message("mkdir", path.string(), errno));
  }
  struct stat status {};
  check(::lstat(path.c_str(), &status),
        "lstat",
        path.string());  // a link of somebody else is refused too
  const bool is_ours = S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
  if (!is_ours || (status.st_mode & 0022) != 0) {
    throw SystemError(path.string() +
                      " is not a directory that only you can write. Remove it, or set "
                      "XDG_RUNTIME_DIR to a directory of your own.");
  }
}

}  // namespace

fs::path scratch_base(const std::optional<std::string>& runtime_dir) {
  // A runtime directory that is not there (su, containers) is as good as none.
  const bool usable = runtime_dir && ::access(runtime_dir->c_str(), W_OK) == 0;
  return usable ? fs::path(*runtime_dir) / "ddp"
                : fs::path("/tmp") / ("ddp-" + std::to_string(::geteuid()));
}

fs::path make_scratch_base(const std::optional<std::string>& runtime_dir) {
  const fs::path base = scratch_base(runtime_dir);
  make_own(base);
  return base;
}

ScratchDir::ScratchDir(const std::optional<std::string>& runtime_dir, const std::string& run_id) {
  const fs::path base = make_scratch_base(runtime_dir);
  path_ = fs::absolute(base) / run_id;
  make_own(path_);
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

}  // namespace ddp::launcher
