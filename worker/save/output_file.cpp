#include "worker/save/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/error.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kBegin = 8 << 20;

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
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      not_begun_(std::exchange(other.not_begun_, 0)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(not_begun_, other.not_begun_);
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
    not_begun_ += static_cast<std::size_t>(written);
    if (not_begun_ < kBegin) continue;
    // The disk works while more comes, and sync() has less to wait for. Where that is not possible
    // nothing is lost.
    (void)::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
    not_begun_ = 0;
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::sync() {
  check(::fsync(fd_), "fsync", path_.string());
}

}  // namespace ddp::worker
