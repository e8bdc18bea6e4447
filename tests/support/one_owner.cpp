// To be preloaded: every file belongs to one user, and everybody may write it, as on CIFS, on NFS
// that squashes users, or on a disk of Windows. No such file system can be mounted everywhere.
#include <dlfcn.h>
#include <sys/stat.h>

namespace {

int shown(int result, struct stat* status) {
  if (result != 0) return result;
  status->st_uid = 4711;
  status->st_mode |= S_IRWXG | S_IRWXO;
  return result;
}

}  // namespace

extern "C" int fstat(int fd, struct stat* status) {
  static auto* const real =
      reinterpret_cast<int (*)(int, struct stat*)>(::dlsym(RTLD_NEXT, "fstat"));
  return shown(real(fd, status), status);
}

extern "C" int fstatat(int fd, const char* path, struct stat* status, int flags) {
  static auto* const real =
      reinterpret_cast<int (*)(int, const char*, struct stat*, int)>(::dlsym(RTLD_NEXT, "fstatat"));
  return shown(real(fd, path, status, flags), status);
}
