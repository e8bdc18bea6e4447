// Where this user's programs keep what can be made again.
#pragma once

#include <filesystem>
#include <optional>

namespace ddp::worker {

/// $XDG_CACHE_HOME, where that is an absolute path, else ~/.cache, with "ddp" behind it. Nothing
/// where no home is known. It need not be there.
std::optional<std::filesystem::path> user_cache_dir();

}  // namespace ddp::worker
