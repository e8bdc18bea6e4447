// How the job ended, with everything that the report and result.json say about it. A value.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/plan/outcome.h"
#include "launcher/plan/worker_report.h"

namespace ddp::launcher {

struct Verdict {
  static constexpr std::size_t kRoundLines = 20;

  Outcome outcome;
  int exit_code = 0;
  int world_size = 0;                    // of the newest round; 0: none has begun
  std::vector<WorkerReport> workers;     // those that ended, by rank
  std::vector<std::string> unkilled;     // what could not be killed
  std::chrono::nanoseconds teardown{0};  // from the first failure seen to the last process gone
  std::string hang;    // what is wrong with the root cause, when the watchdog ended the job
  std::string policy;  // why the exit code is not the root cause's
  int rounds = 1;      // that were started
  std::vector<std::string> earlier_rounds;  // a line each, the newest kRoundLines of them
  std::chrono::nanoseconds duration{0};     // first worker started to last process gone
};

}  // namespace ddp::launcher
