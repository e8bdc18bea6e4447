// The only place that reads the environment: once, early, as a value.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace ddp {

using Environment = std::map<std::string, std::string>;

/// A copy of this process's environment. Entries without '=' are left out; of repeated names the
/// first counts, as with getenv(3).
Environment read_environment();

/// Blanks `name` in the environment that /proc/PID/environ shows, so that no scan finds this
/// process by it. Trap: /proc shows only the variables at the start of the process, not later ones
/// of setenv(3).
void hide_variable(const std::string& name);

/// The value, or nothing when the variable is missing **or empty**.
std::optional<std::string> find_variable(const Environment& environment, const std::string& name);

}  // namespace ddp
