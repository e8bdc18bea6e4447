// Finds the git commit of a directory without running git, from git's own files.
#pragma once

#include <filesystem>
#include <string>

namespace ddp::worker {

/// The full hash of HEAD of the work tree that contains `directory`; empty without a work tree or a
/// commit, or if git's files have an unknown form. Errors: none.
std::string git_commit(const std::filesystem::path& directory);

}  // namespace ddp::worker
