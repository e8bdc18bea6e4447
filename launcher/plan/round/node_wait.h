// How long node 0 waits for the nodes of a round. Pure.
//
// The round begins as soon as all places are taken. With fewer, but enough nodes:
//   the first round     after a last call, for late nodes
//   a later round       at once; if a lost node may be replaced, at the limit
// With too few nodes the round does not begin; at the limit node 0 gives up. No round begins before
// the workers of a lost node have surely ended (`not_before`).
#pragma once

#include <chrono>
#include <optional>

#include "launcher/plan/round/node_table.h"
#include "launcher/plan/round/round.h"

namespace ddp::launcher {

class NodeWait {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Config {
    bool is_first = false;               // round of the job
    std::chrono::milliseconds limit{0};  // of the wait for enough nodes, or a replacement
    std::chrono::milliseconds last_call{0};
  };
  /// Which nodes are there.
  struct Presence {
    bool is_full = false;
    bool is_enough = false;
    bool has_lost = false;     // a node was lost, and fewer are here than in the last round
    bool may_replace = false;  // another node may take the place of a lost one
    /// Whether to wait for a replacement, even with enough nodes.
    [[nodiscard]] bool awaits_another() const { return has_lost && may_replace; }
    /// Whether there are, or may be, enough nodes for another round.
    [[nodiscard]] bool can_go_on() const { return is_enough || may_replace; }
  };
  /// The presence of the nodes of `table`. `round`: the newest; null: none has begun.
  /// `may_replace`: another node may take the place of a lost one.
  static Presence presence_of(const NodeTable& table, const Round* round, bool may_replace);

  enum class Decision { begin, wait, give_up };

  NodeWait(const Config& config, Time now)
      : config_(config), limit_end_(now + config.limit), reminder_(now + kReminder) {}

  /// Call after each event and at deadline().
  Decision advance(const Presence& nodes, Time not_before, Time now);

  /// When to call advance() again without an event.
  [[nodiscard]] Time deadline() const { return deadline_; }
  /// Whether to print now which nodes are missing; true once per reminder.
  [[nodiscard]] bool take_reminder(Time now);

  static constexpr std::chrono::seconds kReminder{10};

 private:
  Config config_;
  Time limit_end_;
  Time reminder_;
  std::optional<Time> last_call_;  // its end, once there are enough nodes
  Time deadline_{};
};

}  // namespace ddp::launcher
