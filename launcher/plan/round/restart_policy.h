// Whether a failed round is followed by another one, and after which pause. A pure table over what
// is known of the rounds so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "launcher/plan/round/round_result.h"

namespace ddp::launcher {

struct RestartLimits {
  int max_restarts = 0;
  std::chrono::milliseconds died_within{30000};  // a round shorter than this was a short one
  bool lost_nodes_are_free = false;              // they do not count as restarts
};

struct RestartDecision {
  bool restart = false;
  bool is_free = false;  // it does not count as one of max_restarts
  std::chrono::milliseconds pause{0};
  int exit_code = 0;   // of the job when there is no restart
  std::string reason;  // why not, where somebody may wonder; else empty

  bool operator==(const RestartDecision&) const = default;
};

/// Counts the rounds of one job.
class RestartPolicy {
 public:
  static constexpr int kStuckRounds = 3;
  static constexpr std::chrono::seconds kLongestPause{30};

  explicit RestartPolicy(RestartLimits limits) : limits_(limits) {}

  /// To be called once for each round, in their order. Restarts while max_restarts is not used up:
  /// at once, but after the second and later short rounds in a row with a pause of 1, 2, 4 ... 30
  /// s. Never after success, a stop by the user, a failure of the launcher itself, the codes 2, 93,
  /// 126, 127 and 203, with processes left over, with too few nodes, or when every worker had
  /// finished before a node was lost. ddp-worker, and programs whose progress page tells of
  /// checkpoints, end with 93 after three rounds in a row without a newer one.
  [[nodiscard]] RestartDecision decide(const RoundResult& result);

  /// Another round would end in the same way.
  [[nodiscard]] static bool is_final(int exit_code);

  /// Restarts that count.
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
