#include "worker/save/checkpoint/checkpoint_path.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/files/files.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "checkpoints";  // below a run's directory
constexpr std::size_t kMaxOfName = 64;          // bytes of a file that holds a checkpoint's name

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// For a path in a run's directory, the one below its checkpoints: RUN/best is
/// RUN/checkpoints/best.
fs::path with_folder(const fs::path& path) {
  const fs::path name = path.filename();
  const bool is_name = name == "best" || name == "latest" || step_of(name.string());
  const fs::path below = path.parent_path() / kFolder;
  std::error_code ignored;
  return is_name && !fs::exists(path, ignored) && is_folder(below) ? below / name : path;
}

/// The checkpoint's name in a file `latest` or `best`; no value for any other file.
std::optional<std::string> read_name(const fs::path& path) {
  std::string text = read_file(path, kMaxOfName).value_or("");
  while (text.ends_with('\n'))
    text.pop_back();
  return step_of(text) ? std::optional(text) : std::nullopt;
}

/// The checkpoints in `directory`, newest first. Errors: UsageError.
std::vector<fs::path> list_checkpoints(const fs::path& directory) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const std::optional<std::int64_t> step = step_of(entry->path().filename().string()))
      found.emplace_back(*step, entry->path());
  }
  if (error)
    throw UsageError("cannot look for checkpoints in " + directory.string() + ": " +
                     error.message() + ".");
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found)
    paths.push_back(std::move(path));
  return paths;
}

/// Errors: UsageError when none is whole; SystemError.
LoadedCheckpoint load_newest(const fs::path& directory,
                             bool trust,
                             std::vector<std::string>& warnings) {
  const std::vector<fs::path> paths = list_checkpoints(directory);
  std::vector<std::string> reasons;
  for (const fs::path& path : paths) {
    try {
      LoadedCheckpoint checkpoint = load_checkpoint(path, trust);
      for (const std::string& reason : reasons)
        warnings.push_back(reason + " Taken is " + path.filename().string() + ".");
      return checkpoint;
    } catch (const UsageError& error) {
      reasons.emplace_back(error.what());
    }
  }
  if (paths.empty())
    throw UsageError(
        directory.string() +
        " holds no checkpoint: no manifest.json, and no directory step-N. Give the "
        "directory of a run or of a checkpoint, or best or latest of a run, as RUN/best.");
  throw UsageError(reasons);
}

}  // namespace

bool is_checkpoint_path(const fs::path& given) {
  const fs::path path = with_folder(given);
  return is_folder(path) || read_name(path);
}

LoadedCheckpoint find_checkpoint(const fs::path& given,
                                 bool trust,
                                 std::vector<std::string>& warnings) {
  const fs::path path = with_folder(given);
  if (!is_folder(path)) {
    if (const std::optional<std::string> name = read_name(path))
      return load_checkpoint(path.parent_path() / *name, trust);
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw UsageError("cannot load checkpoint " + path.string() +
                       ": there is no such file or directory. Give the directory of a run or of a "
                       "checkpoint, or best or latest of a run, as RUN/best.");
    throw UsageError("cannot load checkpoint " + path.string() +
                     ": it is neither a directory nor a file that names one, as latest and best "
                     "do.");
  }
  std::error_code ignored;
  if (step_of(path.filename().string()) || fs::exists(path / "manifest.json", ignored))
    return load_checkpoint(path, trust);
  const fs::path below = path / kFolder;
  return load_newest(is_folder(below) ? below : path, trust, warnings);
}

LoadedCheckpoint find_checkpoint(const fs::path& path, bool trust) {
  std::vector<std::string> warnings;
  LoadedCheckpoint checkpoint = find_checkpoint(path, trust, warnings);
  for (const std::string& warning : warnings)
    log::warning(warning);
  return checkpoint;
}

}  // namespace ddp::worker
