// Estimates the offset of another node's steady clock from heartbeats, so that failures on two
// nodes can be put in order. Each heartbeat carries the time of the heartbeat that it answers. Also
// decides by which clock a node's times in a round are counted. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace ddp::launcher {

/// When a node started its workers, as the node reported it. Its times in the round count from
/// there.
struct GroupBegin {
  std::int64_t at_ns = 0;  // by the node's clock
  std::optional<std::chrono::steady_clock::time_point>
      reported_at;  // when the report came, by our clock; empty until then
};

class ClockOffset {
 public:
  /// Adds one heartbeat of ours, sent at `sent` and answered at `received`. The other side held it
  /// for `held` and read `theirs` on its clock. The answer with the shortest round trip is the most
  /// exact. It is dropped after kForgetAfter, as clocks drift. Source: Cristian, Probabilistic
  /// clock synchronization, 1989.
  void note(std::int64_t sent, std::int64_t received, std::int64_t held, std::int64_t theirs) {
    const std::int64_t under_way = received - sent - held;
    if (sent == 0 || under_way < 0) return;
    const bool is_old = best_ && received - best_->at > kForgetAfter.count();
    if (best_ && !is_old && under_way > best_->under_way) return;
    best_ = Best{received, under_way, theirs - (received - under_way / 2)};
  }

  /// Converts a time of theirs to our clock. Nothing: no heartbeat was answered yet.
  [[nodiscard]] std::optional<std::int64_t> to_ours(std::int64_t theirs) const {
    if (!best_) return std::nullopt;
    return theirs - best_->offset;
  }

  /// What to add to a time that the node reports, which counts from the start of its group, to get
  /// the time since `begin` on our clock. The first row that applies:
  ///
  ///   what is known                      by which clock
  ///   no start was reported              none: the node has no time in the round yet, so 0
  ///   it is our own node                 its own, which is ours
  ///   a heartbeat was answered           its own, less the offset
  ///   none was answered yet              ours, at the report's arrival: late by its travel time
  [[nodiscard]] std::chrono::nanoseconds offset_in_round(
      std::chrono::steady_clock::time_point begin, const GroupBegin& group, bool is_own) const {
    if (!group.reported_at) return std::chrono::nanoseconds(0);
    const std::int64_t ours = std::chrono::nanoseconds(begin.time_since_epoch()).count();
    if (is_own) return std::chrono::nanoseconds(group.at_ns - ours);
    if (const auto at = to_ours(group.at_ns)) return std::chrono::nanoseconds(*at - ours);
    return *group.reported_at - begin;
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
