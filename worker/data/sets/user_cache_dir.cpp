#include "worker/data/sets/user_cache_dir.h"

#include <string>

#include "common/node/users.h"
#include "common/node/identity.h"

namespace ddp::worker {

std::optional<std::filesystem::path> user_cache_dir() {
  namespace fs = std::filesystem;
  // XDG Base Directory Specification: a path that is not absolute is ignored.
  const fs::path told = find_variable(read_environment(), "XDG_CACHE_HOME").value_or("");
  if (told.is_absolute()) return told / "ddp";
  const fs::path home = expand_home("~");
  if (home.is_absolute()) return home / ".cache" / "ddp";
  return {};
}

}  // namespace ddp::worker
