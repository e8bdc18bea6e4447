// `metrics.command`: runs a user's program that reads the run's metrics as lines of JSON, for
// example to send them to Weights & Biases or MLflow. Promises: training waits for the program only
// at the very end, at most kPatience, and never fails because of it: lines that it does not read in
// time are dropped, and a failure is logged once.
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

  /// Starts the program. Errors: none, here and below.
  explicit MetricsCommand(const std::vector<std::string>& command,
                          std::chrono::milliseconds patience = kPatience);

  /// Queues one line, with its line break. Blocks: never.
  void feed(std::string line);

  /// Queues the last line, closes the program's input and waits for its end; kills it after
  /// kPatience. Blocks: until then.
  void finish(std::string line);

 private:
  void write(const std::string& line);
  void give_up(const std::string& why);

  std::string name_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<Process> process_;  // null: could not be started
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> is_closing_{false};  // since finish(): then writing has a deadline
  std::atomic<bool> is_over_{false};     // the program reads no more lines
  Process::Clock::time_point deadline_;  // valid once is_closing_
  std::size_t left_out_ = 0;
  Background thread_{"that feeds a program"};  // declared last: it ends before the other members
};

}  // namespace ddp::worker
