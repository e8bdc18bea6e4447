#include "common/files/owned_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "common/files/files.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr int kOpenDir = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

bool is_link(int directory, const std::string& name) {
  struct stat status {};
  return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(status.st_mode);
}

bool is_dots(const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

[[noreturn]] void refuse(const char* verb, const fs::path& path, const std::string& why) {
  throw SystemError("cannot " + std::string(verb) + " " + path.string() + ": " + why);
}

/// Errors: SystemError.
std::vector<std::string> names_at(int fd, const fs::path& path) {
  Descriptor copy(check(::fcntl(fd, F_DUPFD_CLOEXEC, 0), "dup", path.string()));
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(copy.fd()), ::closedir);
  if (!list) throw SystemError(system_message("fdopendir", path.string(), errno));
  (void)copy.release();
  ::rewinddir(list.get());  // a duplicate shares its position with the original
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(list.get()))
    if (!is_dots(entry->d_name)) names.emplace_back(entry->d_name);
  if (errno != 0) throw SystemError(system_message("readdir", path.string(), errno));
  return names;
}

/// Removes a tree by descriptors: a link in it is removed, not followed.
void remove_at(int above, const std::string& name) {
  if (::unlinkat(above, name.c_str(), 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
  const Descriptor directory(::openat(above, name.c_str(), kOpenDir));
  if (!directory) return;
  try {
    for (const std::string& inside : names_at(directory.fd(), name))
      remove_at(directory.fd(), inside);
  } catch (const SystemError&) {  // leftovers only take space
  }
  ::unlinkat(above, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

OwnedDir::OwnedDir(fs::path path, int fd)
    : path_(std::move(path)), fd_(fd), owner_{::geteuid(), 0} {}

std::optional<OwnedDir> OwnedDir::open(const fs::path& path, std::string& why_not) {
  // With a slash at the end, as in "link/", the kernel follows a link.
  const bool ends_with_slash = !path.has_filename() && path.has_relative_path();  // not "/"
  if (ends_with_slash) return open(path.parent_path(), why_not);
  return open_at(AT_FDCWD, path.string(), path, nullptr, why_not);
}

std::optional<OwnedDir> OwnedDir::make(const fs::path& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0) {
    if (errno == EEXIST) return {};
    refuse("make", path, std::strerror(errno));
  }
  std::string why_not;
  std::optional<OwnedDir> made = open(path, why_not);
  if (!made) refuse("use", path, why_not);
  return made;
}

OwnedDir OwnedDir::require(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) refuse("make", path.parent_path(), error.message());
  if (std::optional<OwnedDir> made = make(path)) return std::move(*made);
  std::string why_not;
  std::optional<OwnedDir> found = open(path, why_not);
  if (!found) refuse("use", path, why_not);
  return std::move(*found);
}

std::optional<OwnedDir> OwnedDir::open_at(
    int above, const std::string& name, fs::path path, const Owner* owner, std::string& why_not) {
  const int fd = ::openat(above, name.c_str(), kOpenDir);
  if (fd < 0) {
    const int error = errno;
    why_not = is_link(above, name) ? "it is a link" : std::strerror(error);
    return {};
  }
  OwnedDir found(std::move(path), fd);
  if (owner != nullptr) found.owner_ = *owner;
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    why_not = std::strerror(errno);
    return {};
  }
  why_not = found.find_problem(status);
  if (why_not.empty()) return found;
  const std::optional<Owner> shown = found.find_shown_owner();
  if (shown) found.owner_ = *shown;
  if (shown && found.find_problem(status).empty()) {
    why_not.clear();
    return found;
  }
  return {};
}

std::string OwnedDir::find_problem(const struct stat& status) const {
  if (status.st_uid != owner_.user) return "it belongs to user " + std::to_string(status.st_uid);
  if ((status.st_mode & kOthersWrite & ~owner_.writers) != 0) {
    return "others can write to it; type chmod -R go-w " + path_.string();
  }
  return "";
}

std::optional<OwnedDir::Owner> OwnedDir::find_shown_owner() const {
  const std::string name = ".ddp-" + random_hex(8);
  constexpr int kNew = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const Descriptor file(::openat(fd(), name.c_str(), kNew, S_IRUSR | S_IWUSR));
  if (!file) return {};
  // Use the descriptor: another user may own the directory and replace the entry.
  struct stat status {};
  const bool is_seen = ::fstat(file.fd(), &status) == 0;
  ::unlinkat(fd(), name.c_str(), 0);
  if (!is_seen) return {};
  return Owner{status.st_uid, status.st_mode & kOthersWrite};
}

OwnedDir OwnedDir::enter(const fs::path& relative) const {
  std::optional<OwnedDir> reached;
  for (const fs::path& step : relative) {
    const OwnedDir& above = reached ? *reached : *this;
    const fs::path path = above.path_ / step;
    if (::mkdirat(above.fd(), step.c_str(), kMode) != 0 && errno != EEXIST)
      refuse("make", path, std::strerror(errno));
    std::string why_not;
    std::optional<OwnedDir> next = above.find(step.string(), why_not);
    if (!next) refuse("use", path, why_not);
    reached = std::move(next);
  }
  if (!reached) throw std::logic_error("OwnedDir::enter: no name");
  return std::move(*reached);
}

std::optional<OwnedDir> OwnedDir::find(const std::string& name, std::string& why_not) const {
  return open_at(fd(), name, path_ / name, &owner_, why_not);
}

int OwnedDir::open_file(const std::string& name, int flags, std::string& why_not) const {
  // O_NONBLOCK, so that a FIFO does not block.
  Descriptor file(
      ::openat(fd(), name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kFileMode));
  struct stat status {};
  if (!file) {
    why_not = errno == ELOOP ? "it is a link" : std::strerror(errno);
  } else {
    why_not = ::fstat(file.fd(), &status) != 0 ? std::strerror(errno) : find_problem(status);
  }
  return why_not.empty() ? file.release() : -1;
}

std::vector<std::string> OwnedDir::names() const {
  return names_at(fd(), path_);
}

std::string OwnedDir::problem_of(const std::string& name) const {
  const Descriptor file(
      ::openat(fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return "";
  if (!file) return errno == ELOOP ? "it is a link" : std::strerror(errno);
  struct stat status {};
  return ::fstat(file.fd(), &status) == 0 ? find_problem(status) : std::strerror(errno);
}

void OwnedDir::remove(const std::string& name) const {
  remove_at(fd(), name);
}

bool OwnedDir::remove_self() const {
  try {
    for (const std::string& name : names())
      remove(name);
  } catch (const SystemError&) {
    return false;
  }
  struct stat status {};
  struct stat named {};
  const bool is_named = ::fstat(fd(), &status) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
                        status.st_dev == named.st_dev && status.st_ino == named.st_ino;
  return is_named && ::rmdir(path_.c_str()) == 0;
}

void OwnedDir::sync() const {
  check(::fsync(fd()), "fsync", path_.string());
}

}  // namespace ddp
