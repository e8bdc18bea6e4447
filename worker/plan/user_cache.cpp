#include "worker/plan/user_cache.h"

#include "common/node/environment.h"
#include "common/node/home_path.h"

namespace ddp::worker {

std::optional<std::filesystem::path> user_cache_dir() {
  // XDG Base Directory Specification: a path that is not absolute is ignored.
  const std::filesystem::path told =
      find_variable(read_environment(), "XDG_CACHE_HOME").value_or("");
  if (told.is_absolute()) return told / "ddp";
  const std::filesystem::path home = expand_home("~");
  if (home.is_absolute()) return home / ".cache" / "ddp";
  return {};
}

}  // namespace ddp::worker
