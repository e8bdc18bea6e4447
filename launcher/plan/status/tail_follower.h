// What is new in streams that are seen through their last lines, from one answer to the next. Pure.
// Promises: no line twice; lines that fell out of the tail between two answers are counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "launcher/plan/status/status_answer.h"

namespace ddp::launcher {

class TailFollower {
 public:
  /// The new lines of streams without a log file, with their prefix; of all ranks, or of one. Of a
  /// stream that is seen for the first time its tail.
  std::string take(const JobAnswer& job, const std::string& rank);

 private:
  std::string take(const WorkerAnswer& worker, const StreamAnswer& stream, const std::string& name);

  // By pid and stream: the next round has other processes, and counts again.
  std::map<std::pair<std::string, std::string>, std::uint64_t> seen_;
};

}  // namespace ddp::launcher
