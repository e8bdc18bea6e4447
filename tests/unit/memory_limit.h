// So much more address space than this process has now, until its end: what a small file asks for
// beyond it is std::bad_alloc. A sanitizer's own memory cannot be limited so: there it does
// nothing.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <stdexcept>

namespace ddp {

class MemoryLimit {
 public:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kWorks = false;
  explicit MemoryLimit(std::size_t) {}
  ~MemoryLimit() {}
#else
  static constexpr bool kWorks = true;
  explicit MemoryLimit(std::size_t more_bytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    if (::getrlimit(RLIMIT_AS, &before_) != 0) throw std::runtime_error("getrlimit");
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const rlimit tight{.rlim_cur = pages * page + more_bytes, .rlim_max = before_.rlim_max};
    if (::setrlimit(RLIMIT_AS, &tight) != 0) throw std::runtime_error("setrlimit");
  }
  ~MemoryLimit() {
    (void)::setrlimit(RLIMIT_AS, &before_);
  }
#endif
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  [[maybe_unused]] rlimit before_{};
};

}  // namespace ddp
