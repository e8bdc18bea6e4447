// Estimates the offset of another node's steady clock from heartbeats, which carry the time of the
// heartbeat they answer, so that failures on two nodes can be put in order. It also decides by
// which clock a round's times on a node are told. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace ddp::launcher {

/// When the workers of a node were started, as the node has told: its times of the round count
/// from there.
struct GroupBegin {
  std::int64_t at_ns = 0;                                        // by the node's clock
  std::optional<std::chrono::steady_clock::time_point> told_at;  // by ours; nothing: not told yet
};

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

  /// What to add to a time that the node tells, which counts from the start of its group, to get
  /// the time since `begin` on our clock. The first row that applies:
  ///
  ///   what is known                      by which clock
  ///   nothing was told                   none: it has no time of the round yet, so 0
  ///   it is our own node                 its own, which is ours
  ///   a heartbeat was answered           its own, less the offset
  ///   none was yet                       ours, when it told: too late by the way of that message
  [[nodiscard]] std::chrono::nanoseconds begin_since(std::chrono::steady_clock::time_point begin,
                                                     const GroupBegin& group,
                                                     bool is_own) const {
    if (!group.told_at) return std::chrono::nanoseconds(0);
    const std::int64_t ours = std::chrono::nanoseconds(begin.time_since_epoch()).count();
    if (is_own) return std::chrono::nanoseconds(group.at_ns - ours);
    if (const auto at = to_ours(group.at_ns)) return std::chrono::nanoseconds(*at - ours);
    return *group.told_at - begin;
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
