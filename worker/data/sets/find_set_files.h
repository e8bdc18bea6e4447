// Finds the files of a published data set: in data.root itself, or in the folder below it where
// torchvision and `ddp-worker fetch` put them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddp::worker {

/// The files of a set as they are published.
struct SetFiles {
  std::string set;                              // "mnist", as data.name says it
  std::string folder;                           // below data.root: "MNIST/raw"
  std::vector<std::vector<std::string>> files;  // all names of each file, without .gz and .xz
  std::string other_form;  // a folder with the set in a form that cannot be read; may be empty
};

/// The path of each of `wanted.files`, in their order, each plain, .gz or .xz. They must all lie in
/// data.root, or all in the folder.
/// Errors: UsageError when `root` is not a directory or files are missing, with what was expected
/// where, and the command that fetches them.
std::vector<std::filesystem::path> find_set_files(const SetFiles& wanted,
                                                  const std::filesystem::path& root);

/// Whether something exists at `path`; false if that cannot be found out.
[[nodiscard]] bool path_exists(const std::filesystem::path& path);

/// Errors: UsageError, with `advice`, when `root` is not set, does not exist or is not a directory.
void require_root(const std::string& set,
                  const std::filesystem::path& root,
                  const std::string& advice);

}  // namespace ddp::worker
