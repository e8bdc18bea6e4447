// The users of this system, as /etc/passwd lists them. Not by getpwuid(3): its modules may ask a
// server, and a static program cannot load them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace ddp {

struct ListedUser {
  std::string name;
  std::string home;
};

/// Nothing: the user is not in the list, as in some containers.
std::optional<ListedUser> find_user(uid_t user);

}  // namespace ddp
