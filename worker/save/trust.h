// Whose files are trusted. The file that a model starts from decides what the model does.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace ddp::worker {

/// True for our own files and for those of root, who could do anything anyway.
bool is_trusted(uid_t owner);

/// The second half of an error message: who owns the file, who we are, and the flag that allows it.
std::string why_not_trusted(uid_t owner);

/// Reads a trusted file, or with `trust` any file. Errors: UsageError (no such file, not trusted,
/// more bytes than this node has memory), SystemError (reading).
std::vector<std::byte> read_trusted(const std::filesystem::path& path, bool trust);

}  // namespace ddp::worker
