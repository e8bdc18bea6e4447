#include "launcher/plan/round/restart_policy.h"

#include <algorithm>

#include "common/exit_code.h"

namespace ddp::launcher {

bool RestartPolicy::is_final(int exit_code) {
  constexpr int kFinal[] = {exit_code::kUsage,
                            exit_code::kNoRestart,
                            exit_code::kCannotExecute,
                            exit_code::kNotFound,
                            exit_code::kRefused};
  return std::ranges::find(kFinal, exit_code) != std::end(kFinal);
}

RestartDecision RestartPolicy::decide(const RoundResult& result) {
  RestartDecision decision;
  decision.exit_code = result.exit_code;
  const bool is_lost = std::holds_alternative<NodeLost>(result.outcome);
  if (!std::holds_alternative<Failed>(result.outcome) && !is_lost) return decision;
  decision.is_free = is_lost && limits_.lost_nodes_are_free;
  if (limits_.max_restarts == 0 && !decision.is_free) return decision;
  if (is_lost && result.all_finished) {
    decision.reason = "every worker had finished before the node was lost";
    return decision;
  }
  if (!result.can_go_on) {
    decision.reason = "too few nodes are left";
    return decision;
  }
  if (result.had_debugger) {
    decision.reason = "who leaves a debugger (--debug) wants no other one";
    return decision;
  }
  if (is_final(result.exit_code)) {
    decision.reason = "exit code " + std::to_string(result.exit_code) + " is never restarted";
    return decision;
  }
  if (!result.unkilled.empty()) {
    decision.reason = "processes of this round could not be killed";
    return decision;
  }
  if (result.is_final) {
    decision.reason = "what holds a worker in an uninterruptible sleep would hold a new one, too";
    return decision;
  }
  stuck_rounds_ = result.tells_checkpoints && result.checkpoint_step <= checkpoint_step_
                      ? stuck_rounds_ + 1
                      : 0;
  checkpoint_step_ = std::max(checkpoint_step_, result.checkpoint_step);
  if (used_ == limits_.max_restarts && !decision.is_free) {
    decision.reason = used_ == 1 ? "the one restart is used up"
                                 : "all " + std::to_string(used_) + " restarts are used up";
    return decision;
  }
  if (stuck_rounds_ == kStuckRounds) {
    decision.exit_code = exit_code::kNoRestart;
    decision.reason = std::to_string(kStuckRounds) + " rounds without a newer checkpoint";
    return decision;
  }
  short_rounds_ = result.lived < limits_.died_within ? short_rounds_ + 1 : 0;
  ++next_round_;
  if (!decision.is_free) ++used_;
  decision.restart = true;
  if (short_rounds_ >= 2) {
    constexpr int kDoublings = 5;  // 2^5 s is above the longest pause
    const std::chrono::seconds pause(1 << std::min(short_rounds_ - 2, kDoublings));
    decision.pause = std::min(pause, kLongestPause);
  }
  return decision;
}

}  // namespace ddp::launcher
