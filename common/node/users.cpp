#include "common/node/users.h"

#include <optional>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "common/files/files.h"
#include "common/node/identity.h"
#include "common/text/split.h"

namespace ddp {

std::optional<ListedUser> find_user(uid_t user) {
  const std::string number = std::to_string(user);
  const std::string list = read_file("/etc/passwd").value_or("");
  for (const std::string_view line : split(list, '\n')) {
    const std::vector<std::string_view> fields = split(line, ':');  // passwd(5)
    if (fields.size() >= 6 && fields[2] == number)
      return ListedUser{std::string(fields[0]), std::string(fields[5])};
  }
  return {};
}

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::optional<std::string> home = find_variable(read_environment(), "HOME");
  const std::optional<ListedUser> listed = home ? std::nullopt : find_user(::getuid());
  const std::string directory = home ? *home : listed ? listed->home : "";
  return directory.empty() ? path : directory + path.substr(1);
}

}  // namespace ddp
