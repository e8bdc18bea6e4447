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

/// Expands "~/data" in a job file or an override, which no shell has expanded: the path with the
/// user's home directory (HOME, else from the system's list of users) for a "~" that stands alone
/// or before a slash. The path is unchanged without such a "~", or if no home is known.
std::string expand_home(const std::string& path);

}  // namespace ddp
