#include "launcher/plan/secret.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/error.h"

namespace ddp::launcher {
namespace {

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

class Secret::Pages {
 public:
  explicit Pages(std::string_view text) : size_(text.size()), mapped_(whole_pages(text.size())) {
    constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS;
    void* const start = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, kOwn, -1, 0);
    if (start == MAP_FAILED) throw SystemError(system_message("mmap", "a secret", errno));
    start_ = static_cast<char*>(start);
    // Before the secret is copied. A failure leaves it no worse than in a string.
    (void)::madvise(start_, mapped_, MADV_DONTDUMP);
    (void)::madvise(start_, mapped_, MADV_WIPEONFORK);
    (void)::mlock(start_, mapped_);
    std::copy(text.begin(), text.end(), start_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    ::explicit_bzero(start_, mapped_);
    ::munmap(start_, mapped_);
  }

  [[nodiscard]] std::string_view text() const { return {start_, size_}; }

 private:
  std::size_t size_;
  std::size_t mapped_;
  char* start_ = nullptr;
};

Secret::Secret(std::string text) {
  if (!text.empty()) pages_ = std::make_shared<const Pages>(text);
  wipe(text);
}

std::string_view Secret::text() const {
  return pages_ ? pages_->text() : std::string_view();
}

void wipe(std::string& text) {
  text.resize(text.capacity());  // also bytes that it held before
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

}  // namespace ddp::launcher
