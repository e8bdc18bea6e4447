// The reasons why samples cannot be used, as lines for people: the first twenty, and how many more
// there are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::worker {

/// Bytes of a reason in one line: it names a file, and a path may have 4096.
inline constexpr std::size_t kLongestReason = 8192;

class ReasonList {
 public:
  /// `reason` may hold the name of a file, and so any character: it becomes one line.
  void add(std::string_view reason);

  [[nodiscard]] std::size_t size() const { return size_; }  // of all that were added
  /// Text to put behind a message: each line begins with a line break. Empty when nothing was
  /// added.
  [[nodiscard]] std::string to_text() const;

 private:
  std::size_t size_ = 0;
  std::string shown_;
};

}  // namespace ddp::worker
