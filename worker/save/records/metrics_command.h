// `metrics.command`: a program of the user's that gets the run's numbers as lines of JSON, as
// Weights & Biases or MLflow are attached. Promises: training never waits for it but at its very
// end, kPatience at most, and never fails by it: what it does not read in time is left out, and
// what goes wrong is said once.
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

  /// One line, with its end. Blocks: never.
  void feed(std::string line);

  /// The last line; then the program ends, or is killed. Blocks: until then, kPatience at most.
  void finish(std::string line);

 private:
  void write(const std::string& line);
  void give_up(const std::string& why);

  std::string name_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<Process> process_;  // null: it could not be started
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> is_closing_{false};  // from then on writing has a deadline
  std::atomic<bool> is_over_{false};     // it reads no more
  Process::Clock::time_point deadline_;  // once is_closing_
  std::size_t left_out_ = 0;
  Background thread_{"that feeds a program"};  // ends first
};

}  // namespace ddp::worker
