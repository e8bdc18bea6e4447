// The commit that a directory was at, read from git's own files: no git has to be there.
#pragma once

#include <filesystem>
#include <string>

namespace ddp::worker {

/// The full hash of HEAD of the work tree that holds `directory`; empty where there is none, or it
/// has no commit yet, or what is there is not understood. Errors: none.
std::string git_commit(const std::filesystem::path& directory);

}  // namespace ddp::worker
