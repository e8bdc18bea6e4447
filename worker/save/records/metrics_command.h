// Programs that read the run's metrics as lines of JSON: `metrics.command`, a user's, for example
// to send them to Weights & Biases or MLflow, and our own for Kubeflow. Promises: training waits
// for them only at the very end, at most kPatience, and never fails because of one: lines that it
// does not read in time are dropped, and a failure is logged once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/save/background.h"
#include "worker/save/records/process.h"

namespace ddp::worker {

/// Used by rank 0 alone, from one thread.
class MetricsCommand {
 public:
  static constexpr std::size_t kMaxQueued = 4 << 20;  // bytes of lines
  static constexpr std::chrono::seconds kPatience{10};

  /// Starts the program. `name` is for warnings. Errors: none, here and below.
  explicit MetricsCommand(std::string name,
                          const std::vector<std::string>& command,
                          std::chrono::milliseconds patience = kPatience);

  /// Queues one line, with its line break. Blocks: never.
  void feed(std::string line);

  /// Queues the last line, and closes the program's input behind it. From now on it has kPatience.
  /// Blocks: never.
  void close(std::string line);
  /// After close(): waits for the program's end; kills it after kPatience. Blocks: until then.
  void wait();

 private:
  void write(const std::string& line);
  void give_up(const std::string& why);

  std::string name_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<Process> process_;  // null: could not be started
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> is_closing_{false};  // since close(): then writing has a deadline
  std::atomic<bool> is_over_{false};     // the program reads no more lines
  Process::Clock::time_point deadline_;  // valid once is_closing_
  std::size_t left_out_ = 0;
  Background thread_{"that feeds a program"};  // declared last: it ends before the other members
};

/// All programs that get the lines. Used by rank 0 alone, from one thread.
class MetricsPrograms {
 public:
  /// Starts one more, as MetricsCommand.
  void start(std::string name, const std::vector<std::string>& command) {
    programs_.push_back(std::make_unique<MetricsCommand>(std::move(name), command));
  }
  [[nodiscard]] bool is_empty() const { return programs_.empty(); }
  void feed(const std::string& line) {
    for (const auto& program : programs_)
      program->feed(line);
  }
  /// Blocks: until all have ended, at most kPatience.
  void finish(const std::string& line) {
    for (const auto& program : programs_)
      program->close(line);
    for (const auto& program : programs_)
      program->wait();
  }

 private:
  std::vector<std::unique_ptr<MetricsCommand>> programs_;
};

}  // namespace ddp::worker
