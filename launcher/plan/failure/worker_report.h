// The ending of one worker, with all that its node knows about it. A value, which is sent to node
// 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/plan/failure/ending.h"
#include "launcher/plan/hang/stacks.h"

namespace ddp::launcher {

struct WorkerReport {
  Ending ending;
  int node_rank = 0;
  std::string host;  // name of that node
  int local_rank = 0;
  std::int64_t pid = 0;
  std::chrono::nanoseconds lived{0};
  std::chrono::system_clock::time_point ended_at;  // node's clock; shown, never compared
  std::int64_t step = 0;
  std::int64_t steps_total = 0;
  std::int64_t checkpoint_step = -1;      // the newest on its page
  std::string error_file;                 // path, when the worker wrote one
  std::string error_text;                 // content of that file
  std::vector<std::string> last_lines;    // of its stderr
  std::vector<std::string> hidden_lines;  // last of its stdout, if not on the console
  // What the node found about the death of a failed worker. They are called "findings" in
  // result.json and in this version of the protocol.
  std::vector<std::string> death_facts;
  std::string rerun;  // of a failure: command that starts this rank alone
  Stacks stacks;      // at a hang: its threads' stacks
};

inline StacksByRank stacks_of(const std::vector<WorkerReport>& reports) {
  StacksByRank stacks;
  for (const WorkerReport& report : reports)
    stacks[report.ending.rank] = report.stacks;
  return stacks;
}

}  // namespace ddp::launcher
