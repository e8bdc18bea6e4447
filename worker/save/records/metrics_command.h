// `metrics.command`: a user's program that gets the run's numbers as lines of JSON, for example to
// feed Weights & Biases or MLflow. Promises: training waits for it only at the very end, at most
// kPatience, and never fails because of it: lines that it does not read in time are left out, and a
// failure is logged once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "worker/save/background.h"
#include "worker/save/records/process.h"

namespace ddp::worker {

/// Used by rank 0 alone, from one thread.
class MetricsCommand {
 public:
  static constexpr std::size_t kMaxQueued = 4 << 20;  // bytes of lines
  static constexpr std::chrono::seconds kPatience{10};

  /// Errors: none, here and below.
  explicit MetricsCommand(const std::vector<std::string>& command,
                          std::chrono::milliseconds patience = kPatience);

  /// Queues one line, with its line break. Blocks: never.
  void feed(std::string line);

  /// Queues the last line; then the program ends, or is killed. Blocks: until then, at most
  /// kPatience.
  void finish(std::string line);

 private:
  void write(const std::string& line);
  void give_up(const std::string& why);

  std::string name_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<Process> process_;  // null: it could not be started
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> is_closing_{false};  // from then on writing has a deadline
  std::atomic<bool> is_over_{false};     // the program reads no more
  Process::Clock::time_point deadline_;  // valid once is_closing_
  std::size_t left_out_ = 0;
  Background thread_{"that feeds a program"};  // ends first
};

}  // namespace ddp::worker
