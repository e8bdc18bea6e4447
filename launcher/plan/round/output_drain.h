// How long the end of a round waits for the last lines of its workers, once they are gone. Pure:
// run/worker_group reads the streams, and cuts those that are open at the end.
//
//   while a stream is open                        then
//   the writer is behind, and holds it back       wait: the writer gives up files that do not move
//   nobody holds it back                          another process has it open, and may have it for
//                                                 ever: wait, for kLongest in all
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::launcher {

class OutputDrain {
 public:
  static constexpr std::chrono::seconds kLongest{2};  // with the sweep: no more than 10 s

  [[nodiscard]] bool is_over(std::size_t open) const { return open == 0 || waited_ >= kLongest; }
  /// `time` was waited since the last call; `held_back` of the streams are open only because the
  /// writer is behind. While any is, the time does not count.
  void note_wait(std::size_t held_back, std::chrono::nanoseconds time) {
    if (held_back == 0) waited_ += time;
  }

 private:
  std::chrono::nanoseconds waited_{0};
};

}  // namespace ddp::launcher
