// Whose files are trusted: the file that a model starts from decides what it learns and says.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace ddp::worker {

/// True for our own files, and for those of root, who can do anything without a file of ours.
bool is_trusted(uid_t owner);

/// The second half of a refusal: who owns the file, who we are, and the flag that allows it.
std::string why_not_trusted(uid_t owner);

/// All bytes of a trusted file, or with `trust` of any file. Errors: UsageError (no such file, not
/// trusted, more bytes than this node has memory), SystemError (reading).
std::vector<std::byte> read_trusted(const std::filesystem::path& path, bool trust);

}  // namespace ddp::worker
