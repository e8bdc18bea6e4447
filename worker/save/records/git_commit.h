// The commit of a directory, read from git's own files: git need not be installed.
#pragma once

#include <filesystem>
#include <string>

namespace ddp::worker {

/// The full hash of HEAD of the work tree that holds `directory`; empty if there is none, or no
/// commit yet, or its files are not understood. Errors: none.
std::string git_commit(const std::filesystem::path& directory);

}  // namespace ddp::worker
