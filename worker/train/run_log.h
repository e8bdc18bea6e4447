// Reports what a run does: writes records to its files, lines to the console, and the progress
// page.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/files/owned_dir.h"
#include "common/progress/progress_page.h"
#include "worker/dist/ddp.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"
#include "worker/save/records/metrics_writer.h"
#include "worker/save/records/round_file.h"
#include "worker/train/snapshot.h"
#include "worker/train/step/optimizer.h"
#include "worker/train/step/precision.h"
#include "worker/train/step/vote.h"

namespace ddp::worker {

class RunLog {
 public:
  /// All references and pointers outlive the RunLog.
  struct Parts {
    const Job& job;
    Group& group;
    const Ddp& replica;
    Precision& precision;
    const Optimizer& optimizer;
    ProgressPage& page;
    const OwnedDir* run_dir = nullptr;  // rank 0's; null: nothing is written
    std::int64_t steps_per_epoch = 1;
    std::vector<std::string> train_names{};  // of the values in epoch records
    std::vector<std::string> test_names{};
    RoundRecord round{};
    std::string job_text{};
    MetricsPrograms* programs = nullptr;  // rank 0's; null: none
    std::string keys{};                   // for `programs`: the job's keys, as a JSON object
    at::Device device = at::kCPU;
  };

  explicit RunLog(Parts parts) : parts_(std::move(parts)) {}

  /// The run begins, or resumes, at `position`; it has `steps` in all. Drops the records of later
  /// steps from the files. Blocks: while rank 0 reads them.
  void open(const Position& position, std::int64_t steps);

  /// After open(): whether the files have a record of the position's step; true if no files are
  /// written.
  [[nodiscard]] bool has_record_of_position() const {
    return !metrics_ || metrics_->has_resumed_step();
  }

  void set_phase(Phase phase) const { enter_phase(parts_.page, phase); }
  /// Shows a finished step on the progress page.
  void note_step(const Position& position, double lr) const;
  void note_loss(double loss) const { parts_.page.loss.store(loss, std::memory_order_relaxed); }
  /// Shows an evaluation on the progress page.
  void note_evaluation(const NamedValues& test) const;

  /// Whether a step gets a record: every train.log_every steps.
  [[nodiscard]] bool is_due(std::int64_t step) const { return step % parts_.job.log_every == 0; }
  /// Writes the record of a step that all ranks have voted on. `more` are values of hooks.
  void write(const AgreedStep& agreed, const SumNames& names, double lr, NamedValues more);
  void write(const EpochRecord& record);
  void write(const EvaluationRecord& record);
  /// Writes what each rank has measured in an epoch of `steps` steps. All ranks call it. Errors:
  /// PeerError.
  void write_ranks(const EpochRecord& record, std::int64_t steps);
  /// Writes that a checkpoint of that step is on disk.
  void write_save(std::int64_t step);
  /// The record of an epoch at its end, still without an evaluation. Blocks: until the device has
  /// done the epoch's steps.
  [[nodiscard]] EpochRecord make_epoch_record(const Position& position,
                                              const SumNames& names) const;
  /// Restarts the measurement of images/s: the time since the last step does not count.
  void restart_clock(const Position& position);

  /// Prints on the console, on rank 0.
  void print(const std::string& text) const;
  /// Prints the times of a step, the table of all epochs, and the run directory.
  void close() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// The line that tells the programs that the run begins or resumes.
  [[nodiscard]] std::string job_line(const Position& position, std::int64_t steps) const;
  /// Reads the records of earlier epochs from the files.
  void read_earlier(const Position& position);
  /// Remembers the best evaluation.
  void note_result(std::int64_t step, const NamedValues& test);

  Parts parts_;
  std::optional<MetricsWriter> metrics_;   // rank 0 only
  std::optional<RoundFile> rounds_;        // rank 0 only
  std::vector<EpochRecord> epochs_;        // finished ones; those of earlier rounds first
  std::size_t earlier_epochs_ = 0;         // how many of them are of earlier rounds
  std::optional<double> best_;             // the best result of the monitored value so far
  std::optional<std::int64_t> best_step_;  // step of that result
  Clock::time_point window_start_;         // of images/s in step records
  std::int64_t window_step_ = 0;
};

}  // namespace ddp::worker
