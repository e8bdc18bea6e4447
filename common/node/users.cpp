#include "common/node/users.h"

#include <string_view>
#include <vector>

#include "common/files/files.h"
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

}  // namespace ddp
