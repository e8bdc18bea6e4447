#include "common/job/home_path.h"

#include <pwd.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "common/node/identity.h"

namespace ddp {
namespace {

/// The home directory in the system's list of users; empty: we are not listed, as in some
/// containers.
std::string listed_home() {
  std::vector<char> buffer(1 << 14);
  passwd entry{};
  passwd* found = nullptr;
  (void)::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr && entry.pw_dir != nullptr ? entry.pw_dir : "";
}

}  // namespace

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::optional<std::string> home = find_variable(read_environment(), "HOME");
  const std::string directory = home ? *home : listed_home();
  return directory.empty() ? path : directory + path.substr(1);
}

}  // namespace ddp
