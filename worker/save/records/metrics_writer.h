// Writes the run's metrics to metrics.jsonl, metrics.csv and TensorBoard's event file, from the
// same records.
// Promises: a record is one whole line, visible at once; numbers read back bit-equal; a run that
// resumes at step S first drops the records after S, so that no step occurs twice; old files that
// count epochs from 0 are converted to count from 1; a failing disk is reported once, and training
// continues.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/files/owned_dir.h"
#include "common/job/job_values.h"
#include "worker/plan/named_values.h"
#include "worker/save/format/event_file.h"
#include "worker/save/output_file.h"

namespace ddp::worker {

class MetricsPrograms;

struct StepRecord {
  std::int64_t epoch = 0;  // finished epochs, here and below; the files count from 1
  std::int64_t step = 0;   // steps done; the first is 1
  double loss = 0;         // of that step, over all ranks
  double lr = 0;
  double images_per_s = 0;
  NamedValues loss_parts{};  // of that step, over all ranks
  NamedValues more{};        // added by hooks
};

struct EpochRecord {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // steps done at its end
  NamedValues train{};    // "loss" and the task's counts, over the epoch
  NamedValues test{};     // "loss", the task's metric, "loss/PART"; empty: not evaluated
  double images_per_s = 0;
  double seconds = 0;
  // data_wait_ms: how long rank 0 waited for its loader, per step. From c10d, in milliseconds per
  // step, as means over the steps that it samples: forward_ms, backward_ms, communication_ms, and
  // overlap_ms, the part of communication during backward. If steps may be skipped: loss_scale, and
  // skipped_steps so far.
  NamedValues figures{};
  NamedValues more{};                 // added by hooks
  std::optional<double> data_wait{};  // fraction of the time that rank 0 waited; not written
};

/// An evaluation in the middle of an epoch.
struct EvaluationRecord {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  NamedValues test{};
};

struct MetricsRequest {
  const OwnedDir& directory;  // outlives the writer
  bool jsonl = true;
  bool csv = true;
  bool tensorboard = true;
  std::int64_t resumed_step = 0;  // records of later steps are dropped
  bool step_is_open = false;      // the step is evaluated again: drops its evaluation, too
  bool epoch_is_open = false;     // the step's epoch continues: drops the epoch's record, too
  // For the columns of the CSV; names with a '/' get no column.
  std::vector<std::string> train_names{"loss", "accuracy"};
  std::vector<std::string> test_names{"loss", "accuracy"};
  std::string job_text{};               // for TensorBoard: the job; may be empty
  TextMap hyperparameters{};            // for TensorBoard, too
  MetricsPrograms* programs = nullptr;  // also get the lines of metrics.jsonl; null: none
};

/// Used by rank 0 alone, from one thread.
class MetricsWriter {
 public:
  /// Errors: none; a file that cannot be opened causes one warning, and is not written.
  explicit MetricsWriter(const MetricsRequest& request);

  /// Whether the files have a record of the resumed step itself.
  [[nodiscard]] bool has_resumed_step() const { return has_resumed_step_; }

  void write(const StepRecord& record);
  void write(const EpochRecord& record);
  void write(const EvaluationRecord& record);
  /// Writes values to TensorBoard only, by tag.
  void show(std::int64_t step, const NamedValues& values);

 private:
  struct Record;
  void append(const Record& record);
  void show_first_batch();

  const OwnedDir& directory_;
  bool has_resumed_step_ = false;
  bool waits_for_picture_ = false;  // another thread draws the first batch
  std::vector<std::string> columns_;
  std::vector<std::string> test_names_;
  MetricsPrograms* programs_ = nullptr;

  std::optional<OutputFile> jsonl_;  // no value: switched off, or given up after a failure
  std::optional<OutputFile> csv_;
  std::optional<EventFile> events_;
};

}  // namespace ddp::worker
