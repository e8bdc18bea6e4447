// The console line about the next round. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/plan/round/node_wait.h"
#include "launcher/plan/round/restart_policy.h"

namespace ddp::launcher {

/// What is known when another round follows.
struct RestartFacts {
  int next_round = 1;
  int world_size = 0;  // of the round that has ended
  NodeWait::Presence nodes;
  std::chrono::milliseconds replace_timeout{0};
  std::chrono::nanoseconds until_replaceable{0};  // until workers of a lost node are surely dead
  std::optional<int> restarts_left;               // nothing: this restart is free
};

/// "round 1 starts in 2s, 2 of 3 ranks go on from step 7, 1 restart is left."
std::string describe_restart(const RoundResult& result,
                             const RestartDecision& decision,
                             const RestartFacts& facts);

}  // namespace ddp::launcher
