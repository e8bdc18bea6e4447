#include "launcher/os/startup_checks.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/node/helper_process.h"

namespace ddp::launcher {

void run_startup_checks() {
  if (::access("/proc/self/stat", R_OK) != 0) {
    throw SystemError(
        "/proc is not mounted here, and without it workers cannot be watched. Mount it: mount -t "
        "proc proc /proc");
  }
  const Descriptor pidfd(open_pidfd(::getpid()));
  if (!pidfd && (errno == ENOSYS || errno == EPERM)) {
    throw SystemError(
        std::string("this kernel lacks pidfd_open(2), or this container refuses it (") +
        std::strerror(errno) +
        "), and without it workers cannot be watched. It takes Linux 5.3 or newer, or a newer "
        "container runtime.");
  }
  std::error_code error;
  if (!std::filesystem::current_path(error).empty() && !error) return;
  // The kernel appends " (deleted)" (proc(5)).
  const std::filesystem::path gone = std::filesystem::read_symlink("/proc/self/cwd", error);
  throw SystemError("the working directory " + gone.string() +
                    " is not there any more. Change into one that is there.");
}

}  // namespace ddp::launcher
