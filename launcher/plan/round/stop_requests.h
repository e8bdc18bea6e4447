// How often one user has asked a job to stop. All that take signals count by this rule: the first
// request stops the job, the second kills it; more change nothing, except with --hosts, where the
// third cuts the connections (plan/hosts/hosts_end). Pure.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>

namespace ddp::launcher {

class StopRequests {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A second signal within this time is the same request: wrappers and terminals deliver one
  /// twice.
  static constexpr std::chrono::milliseconds kDuplicateWindow{100};

  /// Whether a repetition of this signal counts. A scheduler may send SIGUSR1 any number of times.
  static constexpr bool counts(int signal) { return signal == SIGINT || signal == SIGTERM; }

  /// Returns the number of this request, from 1; 0: the last request, delivered again.
  int note(Time at) {
    if (last_ && at - *last_ <= kDuplicateWindow) return 0;
    last_ = at;
    if (++count_ == 2) second_ = at;
    return count_;
  }

  [[nodiscard]] int count() const { return count_; }
  /// When the second request came.
  [[nodiscard]] const std::optional<Time>& second() const { return second_; }

 private:
  int count_ = 0;
  std::optional<Time> last_;
  std::optional<Time> second_;
};

}  // namespace ddp::launcher
