// Finds the new lines of streams that are only seen through their last lines, from one answer to
// the next. Pure. Promises: no line is shown twice; lines that fell out of the tail between two
// answers are counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "launcher/plan/status/status_answer.h"

namespace ddp::launcher {

class TailFollower {
 public:
  /// The new lines of streams without a log file, with their prefix; of all ranks, or of `rank`. A
  /// stream seen for the first time gives its tail.
  std::string take(const JobAnswer& job, const std::string& rank);

 private:
  std::string take(const WorkerAnswer& worker, const StreamAnswer& stream, const std::string& name);

  // By pid and stream, as the next round has other processes that count again.
  std::map<std::pair<std::string, std::string>, std::uint64_t> seen_;
};

}  // namespace ddp::launcher
