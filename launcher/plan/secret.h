// A secret in memory, as the token of a job. It has pages of its own: never swapped out, never in a
// core file (madvise(2)), not in a child that is forked (zero bytes there), wiped in the end.
// Trap: a std::string that is copied, grows or dies leaves its bytes on the heap. So nobody makes
// one of text().
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ddp::launcher {

class Secret {
 public:
  Secret() = default;  // none
  /// Keeps `text`, to be moved here, and wipes it. Where the limit of locked memory does not
  /// suffice it may be swapped out. Errors: SystemError when there is no memory.
  Secret(std::string text);

  /// Lives as long as a copy of this does.
  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] bool empty() const { return pages_ == nullptr; }

 private:
  class Pages;
  std::shared_ptr<const Pages> pages_;  // owners: this and its copies
};

/// Overwrites the bytes of `text`, which is empty then.
void wipe(std::string& text);

}  // namespace ddp::launcher
