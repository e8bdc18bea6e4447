// To be preloaded: every file below DDP_ONE_OWNER_IN belongs to one user, and everybody may write
// it, as on CIFS, on NFS that squashes users, or on a disk of Windows. No such file system can be
// mounted everywhere.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

bool is_there(std::string_view path) {
  const char* const place = std::getenv("DDP_ONE_OWNER_IN");
  return place != nullptr && path.starts_with(place);
}

bool is_there(int fd) {
  std::array<char, 32> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink(link.data(), path.data(), path.size());
  return size > 0 && is_there(std::string_view(path.data(), static_cast<std::size_t>(size)));
}

int shown(int result, struct stat* status, bool is_one) {
  if (result != 0 || !is_one) return result;
  status->st_uid = 4711;
  status->st_mode |= S_IRWXG | S_IRWXO;
  return result;
}

}  // namespace

extern "C" int fstat(int fd, struct stat* status) {
  static auto* const real =
      reinterpret_cast<int (*)(int, struct stat*)>(::dlsym(RTLD_NEXT, "fstat"));
  return shown(real(fd, status), status, is_there(fd));
}

extern "C" int fstatat(int fd, const char* path, struct stat* status, int flags) {
  static auto* const real =
      reinterpret_cast<int (*)(int, const char*, struct stat*, int)>(::dlsym(RTLD_NEXT, "fstatat"));
  const bool is_one = fd == AT_FDCWD || *path == '/' ? is_there(path) : is_there(fd);
  return shown(real(fd, path, status, flags), status, is_one);
}
