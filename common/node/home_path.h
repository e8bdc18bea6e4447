// Paths below the user's home directory.
#pragma once

#include <string>

namespace ddp {

/// Expands "~/data" in a job file or an override, which no shell has expanded: the path with the
/// user's home directory (HOME, else from the system's list of users) for a "~" that stands alone
/// or before a slash. The path is unchanged without such a "~", or if no home is known.
std::string expand_home(const std::string& path);

}  // namespace ddp
