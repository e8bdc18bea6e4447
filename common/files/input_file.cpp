#include "common/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "common/files/owned_dir.h"

namespace ddp {

std::optional<InputFile> InputFile::open(const std::filesystem::path& path, std::string& why_not) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) why_not = std::strerror(errno);
  return from(std::move(file), path.string(), why_not);
}

std::optional<InputFile> InputFile::open_at(int directory,
                                            const std::string& name,
                                            const std::filesystem::path& shown,
                                            std::string& why_not) {
  Descriptor file(
      ::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file) why_not = errno == ELOOP ? "it is a link" : std::strerror(errno);
  return from(std::move(file), shown.string(), why_not);
}

std::optional<InputFile> InputFile::open(const OwnedDir& directory,
                                         const std::string& name,
                                         std::string& why_not) {
  Descriptor file(directory.open_file(name, O_RDONLY, why_not));
  return from(std::move(file), (directory.path() / name).string(), why_not);
}

std::optional<InputFile> InputFile::find(const OwnedDir& directory, const std::string& name) {
  std::string why_not;
  std::optional<InputFile> file = open(directory, name, why_not);
  struct stat status {};
  const bool is_absent =
      ::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
  if (file || is_absent) return file;
  throw SystemError("cannot read " + (directory.path() / name).string() + ": " + why_not);
}

std::optional<InputFile> InputFile::from(Descriptor file, std::string name, std::string& why_not) {
  if (!file) return {};
  struct stat status {};
  if (::fstat(file.fd(), &status) == 0 && S_ISREG(status.st_mode))
    return InputFile(std::move(name), std::move(file), status);
  why_not = "it is not a regular file";
  return {};
}

InputFile::InputFile(std::string name, Descriptor file, const struct stat& status)
    : name_(std::move(name)),
      fd_(std::move(file)),
      size_(static_cast<std::size_t>(status.st_size)),
      is_private_(status.st_uid == ::geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0),
      others_can_write_((status.st_mode & (S_IWGRP | S_IWOTH)) != 0),
      owner_(status.st_uid) {}

std::size_t InputFile::read(std::span<std::byte> buffer) const {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const ssize_t size = ::read(fd_.fd(), buffer.data() + filled, buffer.size() - filled);
    if (size < 0 && errno == EINTR) continue;
    check(size, "read", name_);
    if (size == 0) break;
    filled += static_cast<std::size_t>(size);
  }
  return filled;
}

}  // namespace ddp
