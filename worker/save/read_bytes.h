// Reads files as bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "common/files/input_file.h"

namespace ddp::worker {

/// All bytes of a regular file.
/// Errors: UsageError when it does not exist, is not regular or we may not read it; SystemError
/// when reading fails.
std::vector<std::byte> read_bytes(const std::filesystem::path& path);

/// All bytes from the current position on. Errors: SystemError.
std::vector<std::byte> read_bytes(const InputFile& file);

}  // namespace ddp::worker
