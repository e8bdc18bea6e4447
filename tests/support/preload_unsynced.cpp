// Preloaded into a program: writes down, in DDP_UNSYNCED_LOG, what it writes, syncs and renames, so
// that a test can take away what a power failure would (power_failure.py). One line each: "write
// PATH", "sync PATH", "rename FROM<tab>TO", "exchange ONE<tab>OTHER", in the order of the calls.
// With DDP_UNSYNCED_LIE=1 a sync does nothing and is not written down: what a disk that lies does,
// and the proof that the rest can fail.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

// Not our own write(), which would be noted again.
void note(const std::string& line) {
  static const int log = [] {
    const char* const path = ::getenv("DDP_UNSYNCED_LOG");
    return path == nullptr ? -1 : ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }();
  const std::string whole = line + "\n";
  if (log >= 0) (void)::syscall(SYS_write, log, whole.data(), whole.size());
}

std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : std::string();
}

std::string path_at(int directory, const char* name) {
  return name[0] == '/' || directory == AT_FDCWD ? std::string(name)
                                                 : path_of(directory) + "/" + name;
}

bool is_file(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (is_file(fd)) note("write " + path_of(fd));
  return real(fd, bytes, size);
}

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  static const bool lies = ::getenv("DDP_UNSYNCED_LIE") != nullptr;
  if (lies && is_file(fd)) return 0;
  const int result = real(fd);
  if (result == 0) note("sync " + path_of(fd));
  return result;
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  static const auto real = next<int (*)(int, const char*, int, const char*)>("renameat");
  const std::string line =
      "rename " + path_at(from_directory, from) + "\t" + path_at(to_directory, to);
  const int result = real(from_directory, from, to_directory, to);
  if (result == 0) note(line);
  return result;
}

int renameat2(
    int from_directory, const char* from, int to_directory, const char* to, unsigned int flags) {
  using Function = int (*)(int, const char*, int, const char*, unsigned int);
  static const auto real = next<Function>("renameat2");
  const std::string what = (flags & RENAME_EXCHANGE) != 0 ? "exchange " : "rename ";
  const std::string line = what + path_at(from_directory, from) + "\t" + path_at(to_directory, to);
  const int result = real(from_directory, from, to_directory, to, flags);
  if (result == 0) note(line);
  return result;
}

int rename(const char* from, const char* to) {
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
}
