#include "worker/save/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/error.h"

namespace ddp::worker {
namespace {

int flags_of(OutputFile::Mode mode) {
  return O_WRONLY | O_CREAT | (mode == OutputFile::Mode::create ? O_EXCL : O_APPEND);
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, Mode mode) : path_(path) {
  fd_ = check(::open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0666), "open", path.string());
}

OutputFile::OutputFile(const OwnedDir& directory, const std::string& name, Mode mode)
    : path_(directory.path() / name) {
  std::string why_not;
  fd_ = directory.open_file(name, flags_of(mode), why_not);
  if (fd_ < 0) throw SystemError("open, " + path_.string() + ": " + why_not);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    check(written, "write", path_.string());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::sync() {
  check(::fsync(fd_), "fsync", path_.string());
}

}  // namespace ddp::worker
