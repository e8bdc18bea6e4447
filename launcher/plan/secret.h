// A secret in memory, such as the token of a job. It has pages of its own, which are not swapped
// out, not in core files (madvise(2)), zero bytes in a forked child, and wiped at the end.
// Trap: a std::string that is copied, grows or dies leaves its bytes on the heap, so never copy
// text() into one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ddp::launcher {

class Secret {
 public:
  Secret() = default;  // none
  /// Keeps `text`, to be moved here, and wipes it. If the limit of locked memory is too low, the
  /// secret may be swapped out. Errors: SystemError when there is no memory.
  Secret(std::string text);

  /// Valid as long as this or a copy of it lives.
  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] bool empty() const { return pages_ == nullptr; }

 private:
  class Pages;
  std::shared_ptr<const Pages> pages_;  // owners: this and its copies
};

/// Overwrites the bytes of `text` and makes it empty.
void wipe(std::string& text);

}  // namespace ddp::launcher
