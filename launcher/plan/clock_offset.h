// How another node's steady clock stands to ours, estimated from heartbeats that carry the time of
// the heartbeat they answer. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace ddp::launcher {

class ClockOffset {
 public:
  /// A heartbeat of ours left at `sent`, its answer came at `received`; in between the other side
  /// held it for `held` and read `theirs` on its clock. The answer that was under way for the
  /// shortest time tells most; an old one is forgotten, as clocks drift. Source: Cristian,
  /// Probabilistic clock synchronization, 1989.
  void note(std::int64_t sent, std::int64_t received, std::int64_t held, std::int64_t theirs) {
    const std::int64_t under_way = received - sent - held;
    if (sent == 0 || under_way < 0) return;
    const bool is_old = best_ && received - best_->at > kForgetAfter.count();
    if (best_ && !is_old && under_way > best_->under_way) return;
    best_ = Best{received, under_way, theirs - (received - under_way / 2)};
  }

  /// A time of theirs on our clock, or nothing before the first heartbeat.
  [[nodiscard]] std::optional<std::int64_t> to_ours(std::int64_t theirs) const {
    if (!best_) return std::nullopt;
    return theirs - best_->offset;
  }

  static constexpr std::chrono::nanoseconds kForgetAfter = std::chrono::minutes(1);

 private:
  struct Best {
    std::int64_t at = 0;
    std::int64_t under_way = 0;
    std::int64_t offset = 0;  // theirs - ours
  };
  std::optional<Best> best_;
};

}  // namespace ddp::launcher
