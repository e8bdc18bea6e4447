// Whether another round follows a failed one, and after which pause. Pure: it decides by the rounds
// so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "launcher/plan/round/round_result.h"

namespace ddp::launcher {

struct RestartLimits {
  int max_restarts = 0;
  // A round that ended sooner counts as short; two in a row cause a pause.
  std::chrono::milliseconds died_within{30000};
  bool lost_nodes_are_free = false;  // restarts after a lost node do not count
};

struct RestartDecision {
  bool restart = false;
  bool is_free = false;  // it does not count as one of max_restarts
  std::chrono::milliseconds pause{0};
  int exit_code = 0;   // of the job when there is no restart
  std::string reason;  // why not, unless it is obvious; else empty

  bool operator==(const RestartDecision&) const = default;
};

/// Counts the rounds of one job.
class RestartPolicy {
 public:
  static constexpr int kStuckRounds = 3;
  static constexpr std::chrono::seconds kLongestPause{30};

  explicit RestartPolicy(RestartLimits limits) : limits_(limits) {}

  /// Call once for each round, in order. Restarts while max_restarts is not used up: at once, but
  /// from the second short round in a row on with a pause of 1, 2, 4 ... 30 s. Never after success,
  /// a stop, a failure of the launcher itself, or the codes 2, 93, 126, 127 and 203. Never with
  /// processes left over, after an uninterruptible sleep that ended the round, with too few nodes,
  /// or if every worker had finished before a node was lost. ddp-worker, and programs whose
  /// progress page reports checkpoints, end with 93 after three rounds in a row without a newer
  /// one.
  [[nodiscard]] RestartDecision decide(const RoundResult& result);

  /// Whether another round would end in the same way.
  [[nodiscard]] static bool is_final(int exit_code);

  /// Restarts left, of those that count.
  [[nodiscard]] int remaining() const { return limits_.max_restarts - used_; }
  /// The number of the next round.
  [[nodiscard]] int next_round() const { return next_round_; }

 private:
  RestartLimits limits_;
  int used_ = 0;
  int next_round_ = 0;
  int short_rounds_ = 0;  // in a row
  int stuck_rounds_ = 0;  // in a row
  std::int64_t checkpoint_step_ = -1;
};

}  // namespace ddp::launcher
