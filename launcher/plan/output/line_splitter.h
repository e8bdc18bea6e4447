// Cuts bytes from a pipe into lines. Memory is bounded: a line longer than kLimit comes in pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::launcher {

class LineSplitter {
 public:
  static constexpr std::size_t kLimit = 64 << 10;  // bytes of one line
  static constexpr std::string_view kUnfinished = " [no newline]";

  /// Calls `line(std::string_view)` for every line that is now whole, without its newline.
  template <typename Sink>
  void feed(std::string_view bytes, Sink line) {
    while (!bytes.empty()) {
      const std::size_t room = kLimit - pending_.size();
      const std::size_t end = bytes.substr(0, room + 1).find('\n');
      if (end == std::string_view::npos && bytes.size() <= room) {
        pending_ += bytes;
        return;
      }
      const bool whole = end != std::string_view::npos;
      const std::size_t taken = whole ? end : room;
      if (pending_.empty()) {
        line(bytes.substr(0, taken));
      } else {
        pending_ += bytes.substr(0, taken);
        line(std::string_view(pending_));
        pending_.clear();
      }
      bytes.remove_prefix(taken + (whole ? 1 : 0));
    }
  }

  /// Call at the end of the pipe. A rest without a newline becomes a line marked with kUnfinished.
  template <typename Sink>
  void finish(Sink line) {
    if (pending_.empty()) return;
    pending_ += kUnfinished;
    line(std::string_view(pending_));
    pending_.clear();
  }

  /// Drops so many bytes at the head of pending().
  void forget(std::size_t bytes) { pending_.erase(0, bytes); }

  /// The unfinished line.
  [[nodiscard]] std::string_view pending() const { return pending_; }

 private:
  std::string pending_;  // at most kLimit bytes
};

}  // namespace ddp::launcher
