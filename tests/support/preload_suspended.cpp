// To be preloaded: a machine that was suspended. CLOCK_MONOTONIC has stood still for as many
// nanoseconds as the file DDP_SUSPENDED says (8 bytes, 0 at first), CLOCK_BOOTTIME has not. A test
// stops the node's processes meanwhile, as it cannot suspend the machine that it runs on.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

const volatile std::int64_t* map_file() {
  const char* const path = std::getenv("DDP_SUSPENDED");
  const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const page = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return page == MAP_FAILED ? nullptr : static_cast<const volatile std::int64_t*>(page);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, struct timespec* time) noexcept {
  static auto* const real =
      reinterpret_cast<int (*)(clockid_t, struct timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  static const volatile std::int64_t* const stood_still = map_file();
  const int result = real(clock, time);
  if (result != 0 || clock != CLOCK_MONOTONIC || stood_still == nullptr) return result;
  const std::int64_t now = time->tv_sec * kSecond + time->tv_nsec - *stood_still;
  time->tv_sec = now / kSecond;
  time->tv_nsec = now % kSecond;
  return result;
}
