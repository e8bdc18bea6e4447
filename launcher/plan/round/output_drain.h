// How long the end of a round waits for the last lines of its workers after they are gone. Pure:
// run/worker_group reads the streams, and closes those that are still open at the end.
//
//   a stream is open, and                         then
//   the writer is behind and holds it back        wait: the writer gives up files that do not move
//   the writer does not hold it back              another process has it open, perhaps forever:
//                                                 wait, for kLongest in all
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::launcher {

class OutputDrain {
 public:
  static constexpr std::chrono::seconds kLongest{2};  // at most 10 s with the sweep

  [[nodiscard]] bool is_over(std::size_t open) const { return open == 0 || waited_ >= kLongest; }
  /// Adds `time` waited since the last call. `held_back`: streams that are open only because the
  /// writer is behind. While there are any, the time does not count.
  void note_wait(std::size_t held_back, std::chrono::nanoseconds time) {
    if (held_back == 0) waited_ += time;
  }

 private:
  std::chrono::nanoseconds waited_{0};
};

}  // namespace ddp::launcher
