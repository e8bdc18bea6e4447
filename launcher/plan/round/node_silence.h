// When a silent node is lost, and when its silence is printed. Pure.
//
//   silent for         what
//   > kQuiet           printed once the node is heard again
//   > kLease           the node is lost, and the round is ended on the others; its own guard kills
//                      its workers after as long without node 0
//   >= kReplaceAfter   the next round may begin: the guard has surely done its work
#pragma once

#include <chrono>
#include <optional>

namespace ddp::launcher {

inline constexpr std::chrono::seconds kHeartbeat{1};
inline constexpr std::chrono::seconds kLease{5};
inline constexpr std::chrono::seconds kReplaceAfter = kLease + std::chrono::seconds(2);
inline constexpr std::chrono::milliseconds kQuiet{2500};

class NodeSilence {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Call more often than heartbeats come; `heard`: when the node was last heard. Returns how long
  /// the node was silent, once it is heard again.
  std::optional<std::chrono::nanoseconds> note_heard(Time heard, Time now) {
    const bool is_quiet = now - heard > kQuiet;
    if (is_quiet && !quiet_since_) quiet_since_ = heard;
    if (is_quiet || !quiet_since_) return std::nullopt;
    const std::chrono::nanoseconds quiet = heard - *quiet_since_;
    quiet_since_.reset();
    return quiet;
  }

  [[nodiscard]] static bool is_lost(Time heard, Time now) { return now - heard > kLease; }

 private:
  std::optional<Time> quiet_since_;
};

}  // namespace ddp::launcher
