// Why samples cannot be used, as lines of a message: the first twenty reasons, and how many more
// there are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::worker {

/// Bytes of one reason, at most: it names a file, and a path may have 4096.
inline constexpr std::size_t kLongestReason = 8192;

class ReasonList {
 public:
  /// Line breaks in `reason` are escaped: names of files may hold them.
  void add(std::string_view reason);

  [[nodiscard]] std::size_t size() const { return size_; }  // also counts those that are not shown
  /// Text to append to a message: each line begins with a line break. Empty when nothing was added.
  [[nodiscard]] std::string to_text() const;

 private:
  std::size_t size_ = 0;
  std::string shown_;
};

}  // namespace ddp::worker
