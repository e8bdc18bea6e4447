// Which leftover processes a node kills after a round, and when it is done. Pure: run/worker_group
// finds the processes and sends the signals.
//
//   what lives on                        marked as this   adopted      done when none is left of
//                                        agent's (*)      orphans
//   workers alone                        killed           killed       workers, orphans
//   survivors (they are marked, too)     left alone       killed       workers, orphans
//   children from before ddp-launch      killed           left alone   workers, marked processes
//   (a shell's exec): orphans may be
//   theirs
//
// (*) by DDP_AGENT_ID in the environment.
// "worker": one that must end, not a survivor.
#pragma once

#include <cstddef>

namespace ddp::launcher {

class LeftoverKill {
 public:
  explicit LeftoverKill(bool has_earlier_children) : may_kill_orphans_(!has_earlier_children) {}

  [[nodiscard]] static bool may_kill_marked(std::size_t survivors) { return survivors == 0; }
  [[nodiscard]] bool may_kill_orphans() const { return may_kill_orphans_; }

  /// Call before the search for marked processes. Every process that a worker started is below a
  /// child of this agent, so no child means that nothing is left.
  [[nodiscard]] static bool is_done(std::size_t workers, std::size_t orphans) {
    return workers == 0 && orphans == 0;
  }
  /// Call after that search, which found `marked`.
  [[nodiscard]] bool is_done_but_for_orphans(std::size_t workers, std::size_t marked) const {
    return !may_kill_orphans_ && workers == 0 && marked == 0;
  }

 private:
  bool may_kill_orphans_;
};

}  // namespace ddp::launcher
