// The result of a round: its outcome, its exit code, and what is known of each worker. A value,
// which the restart policy and the report read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/plan/failure/outcome.h"
#include "launcher/plan/failure/worker_report.h"

namespace ddp::launcher {

struct RoundResult {
  Outcome outcome;  // its indices refer to `workers`
  int exit_code = 0;
  std::vector<WorkerReport> workers;  // those that ended, by rank
  std::vector<std::string> unkilled;  // processes that could not be killed
  std::string hang;                   // what is wrong with the root cause, after a hang
  std::chrono::nanoseconds lived{0};
  std::chrono::nanoseconds teardown_time{0};  // from the first failure until all processes are gone
  bool second_stop_request = false;           // by the user; SIGKILL ended the workers
  bool tells_checkpoints = false;             // some worker's page reports checkpoints
  std::int64_t checkpoint_step = -1;          // the newest on any page or held by a survivor
  int survivors = 0;                          // workers that wait for the next round
  std::int64_t survivor_step = -1;            // the newest step that a survivor holds the state of
  bool all_finished = false;                  // every worker of every node finished its work
  bool can_go_on = true;                      // enough nodes are there, or may come
  bool had_debugger = false;                  // some worker
  bool is_final = false;  // what held the root cause would hold a new worker, too
};

}  // namespace ddp::launcher
