// How often one user has asked a job to stop. Everybody who hears signals counts by this rule: the
// first request stops the job, the second kills it, more change nothing. Pure.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>

namespace ddp::launcher {

class StopRequests {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Wrappers and terminals deliver one signal twice: what comes so soon is the same request.
  static constexpr std::chrono::milliseconds kDuplicateWindow{100};

  /// Whether repeating it means something: a scheduler announces an end by SIGUSR1 as often as it
  /// likes.
  static constexpr bool counts(int signal) { return signal == SIGINT || signal == SIGTERM; }

  /// Returns which request it is, from 1; 0: the last one, delivered again.
  int note(Time at) {
    if (last_ && at - *last_ <= kDuplicateWindow) return 0;
    last_ = at;
    if (++count_ == 2) second_ = at;
    return count_;
  }

  [[nodiscard]] int count() const { return count_; }
  /// When the second came.
  [[nodiscard]] const std::optional<Time>& second() const { return second_; }

 private:
  int count_ = 0;
  std::optional<Time> last_;
  std::optional<Time> second_;
};

}  // namespace ddp::launcher
