// The run's numbers: metrics.jsonl, metrics.csv and TensorBoard's event file, from one record each.
// Promises: a record is one whole line, visible at once; numbers read back bit-equal; a run that
// goes on at step S first drops the records after S, so that no step stands there twice; a failing
// disk is reported once and training goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/owned_dir.h"
#include "worker/save/event_file.h"
#include "worker/save/output_file.h"

namespace ddp::worker {

struct StepRecord {
  std::int64_t epoch = 0;  // from 0
  std::int64_t step = 0;   // steps done; the first is 1
  double loss = 0;         // of that step, mean over ranks
  double lr = 0;
  double images_per_s = 0;
  std::vector<std::pair<std::string, double>> loss_parts{};  // of that step, means over ranks
};

struct EpochRecord {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // steps done at its end
  double train_loss = 0;
  double train_accuracy = 0;          // fraction, 0 to 1
  std::optional<double> test_loss{};  // nothing: not evaluated
  std::optional<double> test_accuracy{};
  double images_per_s = 0;
  double seconds = 0;
  // What c10d measured: means over the steps that it samples. Units: milliseconds per step.
  std::optional<double> forward_ms{};
  std::optional<double> backward_ms{};
  std::optional<double> communication_ms{};
  std::optional<double> overlap_ms{};  // of communication, while backward still ran
  // With a loss scale: the scale, and the steps that overflowed and were skipped so far.
  std::optional<double> loss_scale{};
  std::optional<double> skipped_steps{};
};

struct MetricsRequest {
  const OwnedDir& directory;
  bool jsonl = true;
  bool csv = true;
  bool tensorboard = true;
  std::int64_t resumed_step = 0;  // steps done so far; records of later ones are dropped
  bool epoch_is_open = false;  // the epoch of that step goes on: its record, if any, is dropped too
};

/// Used by rank 0 alone, from one thread.
class MetricsWriter {
 public:
  /// Errors: none; what cannot be opened is reported in one warning and left out.
  explicit MetricsWriter(const MetricsRequest& request);

  void write(const StepRecord& record);
  void write(const EpochRecord& record);

 private:
  void append(const std::string& json_line,
              const std::string& csv_line,
              std::int64_t step,
              std::span<const Scalar> scalars);

  std::optional<OutputFile> jsonl_;  // nothing: switched off, or given up after a failure
  std::optional<OutputFile> csv_;
  std::optional<EventFile> events_;
};

}  // namespace ddp::worker
