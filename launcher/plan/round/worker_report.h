// The end of one worker, with all that its node can say about it. A value, which travels to node 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/plan/hang/stacks.h"
#include "launcher/plan/round/ending.h"

namespace ddp::launcher {

struct WorkerReport {
  Ending ending;
  int node_rank = 0;
  std::string host;  // name of that node
  int local_rank = 0;
  std::int64_t pid = 0;
  std::chrono::nanoseconds lived{0};
  std::chrono::system_clock::time_point ended_at;  // by that node's clock: shown, never compared
  std::int64_t step = 0;
  std::int64_t steps_total = 0;
  std::int64_t checkpoint_step = -1;      // the newest that its page told of
  std::string error_file;                 // path, when the worker wrote one
  std::string error_text;                 // what is in it
  std::vector<std::string> last_lines;    // of its stderr
  std::vector<std::string> hidden_lines;  // the last of its stdout, when the console has none
  // Of a failure: what the node says about its death. Readers of result.json, and agents of this
  // version of the protocol, know them as "findings".
  std::vector<std::string> death_facts;
  std::string rerun;  // of a failure: the command that starts the rank alone
  Stacks stacks;      // at a hang: where its threads stood
};

inline StacksByRank stacks_of(const std::vector<WorkerReport>& reports) {
  StacksByRank stacks;
  for (const WorkerReport& report : reports)
    stacks[report.ending.rank] = report.stacks;
  return stacks;
}

}  // namespace ddp::launcher
