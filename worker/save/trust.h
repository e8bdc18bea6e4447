// Whose files are believed: what a model starts from decides what it learns and says.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace ddp::worker {

/// A file of ours, or of root, who needs no file of ours to do what he likes.
bool is_trusted(uid_t owner);

/// Who owns it, who we are, and the flag that lets it in: the second half of a refusal.
std::string why_not_trusted(uid_t owner);

/// All bytes of such a file, or with `trust` of anybody's. Errors: UsageError (no such file, not
/// trusted, more bytes than this node has memory), SystemError (reading).
std::vector<std::byte> read_trusted(const std::filesystem::path& path, bool trust);

}  // namespace ddp::worker
