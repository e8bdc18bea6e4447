// Runs the test set through the model, divided among the ranks: each sample exactly once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/progress/progress_page.h"
#include "worker/data/loading/batch_loader.h"
#include "worker/dist/ddp.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"
#include "worker/plan/named_values.h"
#include "worker/train/step/ema.h"
#include "worker/train/step/forward.h"

namespace ddp::worker {

class RunPictures;

/// The metrics of one evaluation: the task's own, if it has one, and those that the job names.
using Metrics = std::vector<std::unique_ptr<Metric>>;

class Evaluation {
 public:
  /// All references and pointers outlive the evaluation.
  struct Parts {
    std::vector<std::vector<std::int64_t>> batches;  // of this rank: samples of the test set
    Group& group;
    Ddp& replica;
    const Forward& forward;
    const Ema* ema = nullptr;  // evaluated instead of the weights; null: none
    BatchLoader& loader;       // of the test set
    std::function<Metrics()> make_metrics;
    bool has_task_metric = false;  // the task has a metric
    ProgressPage& page;
    const std::atomic<bool>& stop_requested;
    RunPictures* pictures = nullptr;  // on rank 0 of a training; null: none are made
  };

  explicit Evaluation(Parts parts) : parts_(std::move(parts)) {}

  /// Returns "loss", the task's counts or its metric's values, the values of further metrics, and
  /// the parts of the loss as "loss/NAME"; the same on every rank. No value when a rank was asked
  /// to stop: that rank skips its remaining batches. Errors: PeerError, and those of the loader and
  /// the task.
  std::optional<NamedValues> run();

 private:
  Parts parts_;
};

}  // namespace ddp::worker
