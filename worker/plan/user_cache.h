// Where this user's caches lie.
#pragma once

#include <filesystem>
#include <optional>

namespace ddp::worker {

/// The user's cache directory: $XDG_CACHE_HOME/ddp if that variable is an absolute path, else
/// ~/.cache/ddp. No value if no home is known. The directory need not exist.
std::optional<std::filesystem::path> user_cache_dir();

}  // namespace ddp::worker
