#include "worker/save/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "common/error.h"

namespace ddp::worker {
namespace {

class InputFile {
 public:
  // Not blocking, so that a FIFO is refused and not waited for.
  explicit InputFile(const std::string& name)
      : name_(name), fd_(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw UsageError(system_message("open", name_, errno));
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() { ::close(fd_); }

  [[nodiscard]] std::size_t size() const {
    struct stat status {};
    check(::fstat(fd_, &status), "fstat", name_);
    if (!S_ISREG(status.st_mode)) throw UsageError(name_ + ": it is no regular file");
    return static_cast<std::size_t>(status.st_size);
  }

  /// Less than asked means the end.
  std::size_t read(std::byte* bytes, std::size_t wanted) const {
    std::size_t filled = 0;
    while (filled < wanted) {
      const ssize_t size = ::read(fd_, bytes + filled, wanted - filled);
      if (size < 0 && errno == EINTR) continue;
      check(size, "read", name_);
      if (size == 0) break;
      filled += static_cast<std::size_t>(size);
    }
    return filled;
  }

 private:
  std::string name_;
  int fd_;
};

}  // namespace

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  const InputFile file(path.string());
  std::vector<std::byte> bytes(file.size());
  bytes.resize(file.read(bytes.data(), bytes.size()));  // somebody may have cut the file meanwhile
  return bytes;
}

}  // namespace ddp::worker
