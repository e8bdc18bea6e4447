#include "worker/data/sets/data_cache_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/files/files.h"
#include "common/files/owned_dir.h"
#include "worker/plan/digest.h"
#include "worker/plan/user_cache.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
// Others may read a file beside data, but not write it, whatever the umask.
constexpr mode_t kMode = 0644;

/// Below the user's own cache directory, named by the whole path, because many folders have the
/// same name.
fs::path own_path(const fs::path& beside) {
  const std::optional<fs::path> home = user_cache_dir();
  if (!home) return {};
  std::error_code ignored;
  const std::string whole = fs::weakly_canonical(fs::absolute(beside, ignored), ignored).string();
  return *home / "labels" / (digest(std::as_bytes(std::span(whole))) + beside.extension().string());
}

}  // namespace

DataCacheFile::DataCacheFile(fs::path beside, int folder) {
  if (open_beside(beside, folder)) return;
  file_.reset();
  why_not_read_.clear();
  open_own(beside);
}

// False when the cache must not be kept there.
bool DataCacheFile::open_beside(fs::path path, int folder) {
  struct stat status {};
  const uid_t owner = ::fstat(folder, &status) == 0 ? status.st_uid : ::geteuid();
  const auto is_trusted = [&](uid_t user) {
    return user == 0 || user == ::geteuid() || user == owner;
  };
  const auto other = [](uid_t user) { return "belongs to user " + std::to_string(user); };

  const fs::path above = path.has_parent_path() ? path.parent_path() : ".";
  parent_ = Descriptor(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent_.fd() < 0 || ::fstat(parent_.fd(), &status) != 0)
    why_not_beside_ = above.string() + ": " + std::strerror(errno);
  else if (!is_trusted(status.st_uid))
    why_not_beside_ = above.string() + " " + other(status.st_uid);
  else if ((status.st_mode & kOthersWrite) != 0)
    why_not_beside_ = "others can write to " + above.string();

  const std::string name = path.filename().string();
  const bool is_there =
      parent_.fd() >= 0 && ::fstatat(parent_.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_there) file_ = InputFile::open_at(parent_.fd(), name, path, why_not_read_);
  if (is_there && !why_not_beside_.empty())
    why_not_trusted_ = why_not_beside_;
  else if (file_ && !is_trusted(file_->owner()))
    why_not_trusted_ = "it " + other(file_->owner());
  else if (file_ && file_->others_can_write())
    why_not_trusted_ = "others can write it";
  else if (is_there && S_ISLNK(status.st_mode))
    why_not_trusted_ = why_not_read_;
  if (!why_not_trusted_.empty()) why_not_trusted_.insert(0, path.string() + ": ");
  path_ = std::move(path);
  return why_not_beside_.empty() && why_not_trusted_.empty();
}

void DataCacheFile::open_own(const fs::path& beside) {
  parent_ = Descriptor();
  path_ = own_path(beside);
  std::string not_there;
  const std::optional<OwnedDir> directory =
      path_.empty() ? std::nullopt : OwnedDir::open(path_.parent_path(), not_there);
  if (!directory) return;
  try {
    file_ = InputFile::find(*directory, path_.filename().string());
  } catch (const SystemError& error) {
    why_not_read_ = error.what();
  }
}

void DataCacheFile::write(std::string_view bytes) const {
  const std::string name = path_.filename().string();
  if (parent_.fd() >= 0) return replace_file(parent_.fd(), path_.parent_path(), name, kMode, bytes);
  if (path_.empty())
    throw UsageError((why_not_trusted_.empty() ? why_not_beside_ : why_not_trusted_) +
                     ", and neither XDG_CACHE_HOME nor HOME names a directory");
  replace_file(OwnedDir::require(path_.parent_path()), name, bytes);
}

}  // namespace ddp::worker
