// How long node 0 waits for the nodes of a round, as rules without a clock of their own.
//
// The round begins as soon as all places are taken. With fewer nodes, but enough of them:
//   the first round     after a last call, for those that are on their way
//   a later round       at once; where a lost node may be replaced, at the limit
// With too few nodes the round does not begin; at the limit node 0 gives up. No round begins before
// workers of a lost node have surely ended (`not_before`).
#pragma once

#include <chrono>
#include <optional>

#include "launcher/plan/round/node_table.h"
#include "launcher/plan/round/round.h"

namespace ddp::launcher {

class NodeWait {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Rules {
    bool is_first = false;               // round of the job
    std::chrono::milliseconds limit{0};  // for enough nodes, or a replacement
    std::chrono::milliseconds last_call{0};
  };
  /// Who is there.
  struct Presence {
    bool are_all = false;
    bool are_enough = false;
    bool has_lost = false;  // there are fewer than the last round had, as a node was lost
    bool replaces = false;  // another one may take the place of a lost node
    /// A replacement is waited for, though there are enough without it.
    [[nodiscard]] bool awaits_another() const { return has_lost && replaces; }
    /// There is, or will be, somebody for another round.
    [[nodiscard]] bool can_go_on() const { return are_enough || replaces; }
  };
  /// Of the nodes of `table`, after `round`: the newest; null: none has begun. `replaces`: another
  /// node may take the place of a lost one.
  static Presence see_presence(const NodeTable& table, const Round* round, bool replaces);

  enum class Step { begin, wait, give_up };

  NodeWait(const Rules& rules, Time now)
      : rules_(rules), last_(now + rules.limit), reminder_(now + kReminder) {}

  /// To be called after each event, and at deadline().
  Step advance(const Presence& nodes, Time not_before, Time now);

  /// When advance() is to be called again though nothing happens.
  [[nodiscard]] Time deadline() const { return deadline_; }
  /// It is time to say who is missing; true once for each time.
  [[nodiscard]] bool take_reminder(Time now);

  static constexpr std::chrono::seconds kReminder{10};

 private:
  Rules rules_;
  Time last_;
  Time reminder_;
  std::optional<Time> last_call_;  // its end, once there are enough
  Time deadline_{};
};

}  // namespace ddp::launcher
