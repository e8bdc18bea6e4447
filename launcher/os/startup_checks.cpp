#include "launcher/os/startup_checks.h"

#include <unistd.h>

#include <filesystem>

#include "common/error.h"

namespace ddp::launcher {

void run_startup_checks() {
  if (::access("/proc/self/stat", R_OK) != 0) {
    throw SystemError(
        "/proc is not mounted here, and without it workers cannot be watched. Mount it: mount -t "
        "proc proc /proc");
  }
  std::error_code error;
  if (!std::filesystem::current_path(error).empty() && !error) return;
  // The kernel appends " (deleted)" (proc(5)).
  const std::filesystem::path gone = std::filesystem::read_symlink("/proc/self/cwd", error);
  throw SystemError("the working directory " + gone.string() +
                    " is not there any more. Change into one that is there.");
}

}  // namespace ddp::launcher
