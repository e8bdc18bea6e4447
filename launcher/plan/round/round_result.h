// The result of a round: its outcome, its exit code, and what is known of each worker. A value. The
// restart policy decides by it, and the report quotes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/plan/round/outcome.h"
#include "launcher/plan/round/worker_report.h"

namespace ddp::launcher {

struct RoundResult {
  Outcome outcome;  // its indices are those of `workers`
  int exit_code = 0;
  std::vector<WorkerReport> workers;  // those that ended, by rank
  std::vector<std::string> unkilled;  // what could not be killed
  std::string hang;                   // what is wrong with the root cause, after a hang
  std::chrono::nanoseconds lived{0};
  std::chrono::nanoseconds teardown_time{0};  // from the first failure to the last process gone
  bool second_stop_request = false;           // by the user, to stop: then SIGKILL ends the workers
  bool tells_checkpoints = false;             // some worker's page would tell of a checkpoint
  std::int64_t checkpoint_step = -1;          // newest one that a page told of
  int survivors = 0;                          // workers that wait for the next round
  std::int64_t survivor_step = -1;            // the newest step whose state one of them holds
  bool is_done = false;                       // every worker of every node has finished its work
  bool can_go_on = true;                      // enough nodes are there, or are waited for
};

}  // namespace ddp::launcher
