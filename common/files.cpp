#include "common/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <string>

#include "common/error.h"
#include "common/input_file.h"

namespace ddp {
namespace {

// A descriptor that closes itself on every way out.
class File {
 public:
  File(const std::filesystem::path& path, int flags, const char* purpose)
      : fd_(check(::open(path.c_str(), flags | O_CLOEXEC, 0666), purpose, path.string())) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(fd_); }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

void write_all(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    check(written, "write", name);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

void replace_file(const std::filesystem::path& path, std::string_view text) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw SystemError("cannot replace " + path.string() + ": it is no regular file");
  }
  const std::filesystem::path temporary = path.string() + ".tmp-" + std::to_string(::getpid());
  try {
    {
      const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC, "open");
      write_all(file.fd(), text, temporary.string());
      check(::fsync(file.fd()), "fsync", temporary.string());
    }
    check(::rename(temporary.c_str(), path.c_str()), "rename", path.string());
  } catch (const SystemError&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

std::optional<std::string> read_file(const std::filesystem::path& path, std::size_t limit) {
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) return {};
  std::string text;
  std::array<std::byte, 65536> buffer{};
  while (text.size() < limit) {
    const std::size_t wanted = std::min(buffer.size(), limit - text.size());
    const std::size_t size = file->read(std::span(buffer).first(wanted));
    text.append(reinterpret_cast<const char*>(buffer.data()), size);
    if (size < wanted) break;
  }
  return text;
}

void sync_directory(const std::filesystem::path& directory) {
  const File file(directory, O_RDONLY | O_DIRECTORY, "open");
  check(::fsync(file.fd()), "fsync", directory.string());
}

}  // namespace ddp
