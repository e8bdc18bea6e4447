// How the job ended, with everything that the report and result.json say about it. A value.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/plan/round/round_result.h"

namespace ddp::launcher {

/// What the last round came to, which is what the job came to, and what of the job led there.
struct Verdict : RoundResult {
  static constexpr std::size_t kRoundLines = 20;

  int world_size = 0;                       // of the newest round; 0: none has begun
  std::string why_last_round;               // why no other one followed, where somebody may wonder
  int rounds = 0;                           // that have begun
  std::vector<std::string> earlier_rounds;  // a line each, the newest kRoundLines of them
  std::chrono::nanoseconds duration{0};     // node 0 is there to the last process gone
};

}  // namespace ddp::launcher
