// What a run tells while it trains: records in its files, lines on the console, the progress page.
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
  /// Everything outlives the run_log.
  struct Parts {
    const Job& job;
    Group& group;
    const Ddp& replica;
    Precision& precision;
    const Optimizer& optimizer;
    ProgressPage& page;
    const OwnedDir* run_dir = nullptr;  // rank 0's; null: nothing is written
    std::int64_t steps_per_epoch = 1;
    std::vector<std::string> train_names{};  // of what epochs' records hold
    std::vector<std::string> test_names{};
    RoundRecord round{};
    std::string job_text{};
    MetricsCommand* command = nullptr;  // likewise
    std::string keys{};                 // for it: the job's, as a JSON object
    at::Device device = at::kCPU;
  };

  explicit RunLog(Parts parts) : parts_(std::move(parts)) {}

  /// The run begins, or goes on, at `position`; it has `steps` in all. Records of later steps are
  /// dropped from the files. Blocks: while rank 0 reads them.
  void open(const Position& position, std::int64_t steps);

  /// After open(): whether the record of its step is in the files, or none are written.
  [[nodiscard]] bool has_newest() const { return !metrics_ || metrics_->has_resumed_step(); }

  void set_phase(Phase phase) const { parts_.page.phase.store(phase, std::memory_order_relaxed); }
  /// One more step is done.
  void note_step(const Position& position, double lr) const;
  void note_loss(double loss) const { parts_.page.loss.store(loss, std::memory_order_relaxed); }
  /// An evaluation is done.
  void note_test(const NamedValues& test) const;

  /// Whether a step is written: each train.log_every steps.
  [[nodiscard]] bool is_due(std::int64_t step) const { return step % parts_.job.log_every == 0; }
  /// A step that all ranks have voted on. `more` is of hooks.
  void write(const AgreedStep& agreed, const SumNames& names, double lr, NamedValues more);
  void write(const EpochRecord& record);
  void write(const EvaluationRecord& record);
  /// What each rank measured in that epoch, of `steps` steps. All ranks call it. Errors: PeerError.
  void write_ranks(const EpochRecord& record, std::int64_t steps);
  /// A checkpoint of that step is on disk.
  void write_save(std::int64_t step);
  /// What is known of an epoch at its end, before it is tested. Blocks: until the device has done
  /// its steps.
  [[nodiscard]] EpochRecord start_record(const Position& position, const SumNames& names) const;
  /// What came between two steps is not counted as their time.
  void restart_clock(const Position& position);

  /// On the console, by rank 0.
  void print(const std::string& text) const;
  /// What the collectives took, the table of all epochs, and where the run's files are.
  void close() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// For metrics.command: what begins, or goes on.
  [[nodiscard]] std::string job_line(const Position& position, std::int64_t steps) const;
  /// The epochs before `position`, as far as the files tell them.
  void read_earlier(const Position& position);
  /// Remembers which evaluation is the best.
  void note_result(std::int64_t step, const NamedValues& test);

  Parts parts_;
  std::optional<MetricsWriter> metrics_;   // rank 0 only
  std::optional<RoundFile> rounds_;        // likewise
  std::vector<EpochRecord> epochs_;        // done; those of earlier rounds first
  std::size_t earlier_epochs_ = 0;         // how many those are
  std::optional<double> best_;             // result of an evaluation, in what is watched
  std::optional<std::int64_t> best_step_;  // of that one
  Clock::time_point window_start_;         // of the images/s in step records
  std::int64_t window_step_ = 0;
};

}  // namespace ddp::worker
