#include "common/node/home_path.h"

#include <unistd.h>

#include <optional>

#include "common/node/environment.h"
#include "common/node/users.h"

namespace ddp {

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::optional<std::string> home = find_variable(read_environment(), "HOME");
  const std::optional<ListedUser> listed = home ? std::nullopt : find_user(::getuid());
  const std::string directory = home ? *home : listed ? listed->home : "";
  return directory.empty() ? path : directory + path.substr(1);
}

}  // namespace ddp
