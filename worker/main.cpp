// ddp-worker: one rank of a job with the built-in models and data sets. `ddp-worker fetch` becomes
// the program ddp-fetch, which lies beside it.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string_view>

#include "common/exit_code.h"
#include "worker/program.h"
#include "worker/start/rank_template.h"

namespace {

/// Only ddp-fetch needs it, so it may be missing; the dynamic loader's message would give no
/// advice.
constexpr const char* kCurl = "libcurl-gnutls.so.4";

/// Returns only on failure, with the exit code.
int become_fetch(char** arguments) {
  if (::dlopen(kCurl, RTLD_LAZY) == nullptr) {
    std::cerr << "ddp-worker: fetch needs libcurl, which cannot be loaded: " << ::dlerror()
              << ". On Debian and Ubuntu type: sudo apt-get install libcurl3-gnutls\n";
    return ddp::exit_code::kNotFound;
  }
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = self.parent_path() / "ddp-fetch";
  arguments[0] = const_cast<char*>(program.c_str());
  ::execv(program.c_str(), arguments);
  const int why = errno;
  std::cerr << "ddp-worker: cannot start " << program << ": " << std::strerror(why)
            << ". It belongs beside ddp-worker; install both.\n";
  return why == ENOENT ? ddp::exit_code::kNotFound : ddp::exit_code::kCannotExecute;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "fetch") return become_fetch(argv + 1);
  ddp::worker::become_copy_of_template(argc, argv);
  ddp::worker::run(argc, argv);
}
