// A file read as a whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace ddp::worker {

/// All bytes of a regular file.
/// Errors: UsageError when it is not there, not regular or not ours to read; SystemError when
/// reading fails.
std::vector<std::byte> read_bytes(const std::filesystem::path& path);

}  // namespace ddp::worker
