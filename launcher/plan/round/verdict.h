// How the job ended, with everything that the report and result.json say about it. A value.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/plan/round/round_result.h"

namespace ddp::launcher {

/// The last round's result, which is the job's, and the history that led to it.
struct Verdict : RoundResult {
  static constexpr std::size_t kRoundLines = 20;

  int world_size = 0;                       // of the newest round; 0: none has begun
  std::string why_last_round;               // why no round followed, unless obvious
  int rounds = 0;                           // rounds that have begun
  std::vector<std::string> earlier_rounds;  // one line each, the newest kRoundLines
  std::chrono::nanoseconds duration{0};     // from node 0's start until all are gone
};

}  // namespace ddp::launcher
