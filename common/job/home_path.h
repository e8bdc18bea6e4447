// "~/data" in a job file or an override: no shell has looked at it.
#pragma once

#include <string>

namespace ddp {

/// The path with the user's home directory (HOME, else the system's list of users) in place of a
/// "~" that stands alone or before a slash; as it is where there is none, or no home is known.
std::string expand_home(const std::string& path);

}  // namespace ddp
