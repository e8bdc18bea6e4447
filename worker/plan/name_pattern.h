// Patterns that choose parameters by name, in the job file: model.freeze, learning rates.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp::worker {

/// Whether a shell pattern fits the whole name: `*` any text (dots too), `?` one character, `[a-c]`
/// one of these. Source: fnmatch(3), without its flags.
bool matches(const std::string& pattern, const std::string& name);

/// The indices of the `names` that `pattern` matches; at least one. Errors: UsageError when there
/// is none, with the nearest name or beginning of a name; `key` is the job key that holds the
/// pattern.
std::vector<std::size_t> find_matches(const std::string& key,
                                      const std::string& pattern,
                                      const std::vector<std::string>& names);

}  // namespace ddp::worker
