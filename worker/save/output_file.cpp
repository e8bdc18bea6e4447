#include "worker/save/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "common/files/files.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kBytesBeforeWriteback = 8 << 20;
namespace fs = std::filesystem;

int flags_of(OutputFile::Mode mode) {
  return O_WRONLY | O_CREAT | (mode == OutputFile::Mode::create ? O_EXCL : O_APPEND);
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, Mode mode)
    : path_(path),
      file_(check(::open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0666), "open", path.string())) {}

OutputFile::OutputFile(const OwnedDir& directory, const std::string& name, Mode mode)
    : path_(directory.path() / name) {
  std::string why_not;
  file_ = Descriptor(directory.open_file(name, flags_of(mode), why_not));
  if (file_.fd() < 0) throw SystemError("open, " + path_.string() + ": " + why_not);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.fd(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    check(written, "write", path_.string());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    not_begun_ += static_cast<std::size_t>(written);
    if (not_begun_ < kBytesBeforeWriteback) continue;
    // Starts writing to the disk early, so that sync() has less to wait for. A failure here does no
    // harm.
    (void)::sync_file_range(file_.fd(), 0, 0, SYNC_FILE_RANGE_WRITE);
    not_begun_ = 0;
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::sync() {
  check(::fsync(file_.fd()), "fsync", path_.string());
}

void replace_with(const fs::path& path, const std::function<void(OutputFile)>& write) {
  std::error_code ignored;
  fs::path target = path;
  if (fs::is_symlink(path, ignored)) target = fs::weakly_canonical(path, ignored);
  if (target.empty())
    throw SystemError("cannot replace " + path.string() + ": it is a broken link");
  const fs::file_status before = fs::status(target, ignored);
  if (fs::exists(before) && !fs::is_regular_file(before))
    throw SystemError("cannot replace " + target.string() + ": it is not a regular file");
  const fs::path above = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const fs::path temporary = above / (target.filename().string() + ".tmp-" + random_hex(8));
  // Made before the `try`, so that the clean-up below never removes somebody else's file.
  OutputFile file(temporary, OutputFile::Mode::create);
  try {
    if (fs::exists(before))
      check(::chmod(temporary.c_str(), static_cast<mode_t>(before.permissions())),
            "chmod",
            temporary.string());
    write(std::move(file));
    check(::rename(temporary.c_str(), target.c_str()), "rename", target.string());
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  const Descriptor directory(
      check(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open", above.string()));
  check(::fsync(directory.fd()), "fsync", above.string());
}

}  // namespace ddp::worker
