// ddp-worker as pip installs it: becomes the worker that is built for the environment's torch.
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/node/packaged_worker.h"

namespace {

/// Before what the user has there.
void add_library_path(const std::string& directories) {
  constexpr const char* kName = "LD_LIBRARY_PATH";
  if (directories.empty()) return;
  const char* const given = std::getenv(kName);
  const std::string rest = given != nullptr && *given != '\0' ? std::string(":") + given : "";
  ::setenv(kName, (directories + rest).c_str(), 1);
}

/// As it was started: a link to it may lie in an environment, and it itself in a cache.
std::filesystem::path self() {
  const auto* const name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  const std::filesystem::path started = std::filesystem::absolute(name != nullptr ? name : "");
  if (ddp::has_packaged_worker(started)) return started;
  std::error_code error;
  const auto found = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? started : found;
}

/// Returns only on failure.
void become_worker(char** arguments) {
  const ddp::PackagedWorker worker = ddp::find_packaged_worker(self());
  add_library_path(worker.library_path);
  ::execv(worker.program.c_str(), arguments);
  throw ddp::SystemError("cannot start " + worker.program.string() + ": " + std::strerror(errno),
                         ddp::exit_code::kCannotExecute);
}

}  // namespace

int main(int, char** arguments) {
  try {
    become_worker(arguments);
  } catch (const std::exception& error) {
    return ddp::print_error("ddp-worker", error);
  }
}
