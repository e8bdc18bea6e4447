#include "common/files/files.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/files/input_file.h"
#include "common/files/owned_dir.h"
#include "common/files/write_all.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

std::string read_all(const InputFile& file, std::size_t limit) {
  constexpr std::size_t kLeast = 4096;  // kernel files have size 0
  std::string text;
  std::size_t size = 0;
  while (size == text.size() && size < limit) {
    text.resize(std::min(limit, std::max({kLeast, file.size() + 1, 2 * size})));
    const std::span<char> rest = std::span(text).subspan(size);
    size += file.read(std::as_writable_bytes(rest));
  }
  text.resize(size);
  return text;
}

}  // namespace

void replace_file(int directory,
                  const fs::path& above,
                  const std::string& name,
                  mode_t mode,
                  std::string_view text) {
  const fs::path path = above / name;
  struct stat status {};
  if (::fstatat(directory, name.c_str(), &status, 0) == 0 && !S_ISREG(status.st_mode))
    throw SystemError("cannot replace " + path.string() + ": it is not a regular file");
  const std::string temporary = name + ".tmp-" + random_hex(8);
  const std::string shown = (above / temporary).string();
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int fd = check(::openat(directory, temporary.c_str(), kNew, mode), "open", shown);
  try {
    {
      const Descriptor file(fd);
      check(write_all(file.fd(), text) ? 0 : -1, "write", shown);
      check(::fsync(file.fd()), "fsync", shown);
    }
    check(
        ::renameat(directory, temporary.c_str(), directory, name.c_str()), "rename", path.string());
  } catch (const SystemError&) {
    ::unlinkat(directory, temporary.c_str(), 0);
    throw;
  }
  check(::fsync(directory), "fsync", above.string());
}

void replace_file(const fs::path& path, std::string_view text) {
  constexpr mode_t kAsOthersDo = 0666;  // error files are shared with other programs
  const fs::path above = path.has_parent_path() ? path.parent_path() : ".";
  const int fd = ::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const Descriptor directory(check(fd, "open", above.string()));
  replace_file(directory.fd(), above, path.filename().string(), kAsOthersDo, text);
}

void replace_file(const OwnedDir& directory, const std::string& name, std::string_view text) {
  replace_file(directory.fd(), directory.path(), name, OwnedDir::kFileMode, text);
}

std::optional<std::string> read_file(const fs::path& path, std::size_t limit) {
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) return {};
  return read_all(*file, limit);
}

std::optional<std::string> read_file(const OwnedDir& directory,
                                     const std::string& name,
                                     std::size_t limit) {
  const std::optional<InputFile> file = InputFile::find(directory, name);
  if (!file) return {};
  return read_all(*file, limit);
}

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  // Up to 256 bytes come whole and without EINTR once the kernel has its seed (getrandom(2)).
  check(::getrandom(random.data(), random.size(), 0), "getrandom", "a random name");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * random.size());  // it may be a secret: a growing string would leave copies
  for (const unsigned char byte : random) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace ddp
