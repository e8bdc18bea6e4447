#include "worker/data/sets/find_set_files.h"

#include <algorithm>

#include "common/error.h"
#include "common/text/join_words.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

/// The first of `names` that exists in the folder, plain or compressed; empty: none does.
fs::path find_file(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const char* const suffix : {"", ".gz", ".xz"}) {
      if (path_exists(folder / (name + suffix))) return folder / (name + suffix);
    }
  }
  return {};
}

std::vector<fs::path> find_files(const fs::path& folder, const SetFiles& wanted) {
  std::vector<fs::path> found;
  for (const std::vector<std::string>& names : wanted.files)
    found.push_back(find_file(folder, names));
  return found;
}

/// The names of the files that were not found.
std::string missing(const std::vector<fs::path>& found, const SetFiles& wanted) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].empty()) names.push_back(join_words(wanted.files[i], " or "));
  }
  return join_words(names, ", ") + " (plain, .gz or .xz)";
}

std::string how_to_get(const SetFiles& wanted, const fs::path& root) {
  return " Get the set: ddp-worker fetch " + wanted.set + " " + root.string() +
         ". Or set data.root to the directory that holds its files.";
}

}  // namespace

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void require_root(const std::string& set, const fs::path& root, const std::string& advice) {
  const std::string what = "cannot load " + set + ": ";
  if (root.empty()) throw UsageError(what + "data.root is not set. " + advice);
  std::error_code error;
  if (!fs::exists(root, error)) {
    const std::string reason = error ? " (" + error.message() + ")" : "";
    throw UsageError(what + "data.root " + root.string() + " does not exist" + reason + ". " +
                     advice);
  }
  if (!fs::is_directory(root, error))
    throw UsageError(what + "data.root " + root.string() + " is not a directory. " + advice);
}

std::vector<fs::path> find_set_files(const SetFiles& wanted, const fs::path& root) {
  require_root(wanted.set,
               root,
               "Set data.root to the directory that holds its files (ddp-worker fetch " +
                   wanted.set + " DIR gets them), or data.name=digits, which needs none.");
  const std::vector<fs::path> folders{root, root / wanted.folder};
  const auto lacks = [](const fs::path& path) { return path.empty(); };
  for (const fs::path& folder : folders) {
    std::vector<fs::path> found = find_files(folder, wanted);
    if (std::none_of(found.begin(), found.end(), lacks)) return found;
  }
  const std::string what = "cannot load " + wanted.set + ": ";
  for (const fs::path& folder : folders) {
    const std::vector<fs::path> found = find_files(folder, wanted);
    if (!std::all_of(found.begin(), found.end(), lacks)) {
      throw UsageError(what + folder.string() + " has no " + missing(found, wanted) + "." +
                       how_to_get(wanted, root));
    }
  }
  if (!wanted.other_form.empty() && path_exists(root / wanted.other_form)) {
    throw UsageError(what + (root / wanted.other_form).string() +
                     " holds Python's pickles, which are not read: the binary version is needed." +
                     how_to_get(wanted, root));
  }
  throw UsageError(what + "its files are neither in " + root.string() + " nor in " +
                   folders[1].string() + ", expected " +
                   missing(std::vector<fs::path>(wanted.files.size()), wanted) + "." +
                   how_to_get(wanted, root));
}

}  // namespace ddp::worker
