// One optimizer step on one rank: micro-steps, the reduction over ranks, the optimizer. run()
// itself does not wait for a device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/progress/progress_page.h"
#include "worker/data/loading/batch_loader.h"
#include "worker/dist/ddp.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"
#include "worker/plan/partition.h"
#include "worker/train/step/forward.h"
#include "worker/train/step/meters.h"
#include "worker/train/step/optimizer.h"
#include "worker/train/step/precision.h"
#include "worker/train/step/vote.h"

namespace ddp::worker {

class Step {
 public:
  /// All references outlive the step.
  struct Parts {
    const Job& job;
    Group& group;
    Ddp& replica;
    const Forward& forward;
    Precision& precision;
    Optimizer& optimizer;
    BatchLoader& loader;  // of the training set
    ProgressPage& page;
    // Draws a step's first micro-batch, given how many steps were done before; null: nothing is
    // drawn.
    std::function<void(const Batch&, std::int64_t)> show;
  };

  explicit Step(Parts parts) : parts_(std::move(parts)) {}

  /// Runs passes and drops their gradients, until the layout of the reducer's buckets is final and
  /// the model runs the same code in each, for batches of this size.
  /// Runs at least one, to learn the names of the loss's parts and of the counts. Restores the
  /// buffers. `samples` are those of one pass. Errors: PeerError, also (203) when these names
  /// differ between ranks.
  SumNames run_warm_up_passes(const std::vector<std::int64_t>& samples);

  /// The next steps are those from step `step_in_epoch` of `epoch` on, in order; starts to load
  /// their samples.
  void start(const PartitionOptions& partition, std::int64_t epoch, std::int64_t step_in_epoch);

  struct StepNumber {
    std::int64_t step = 0;  // optimizer steps done in the run
    std::int64_t epoch = 0;
  };
  /// Runs one step. The gradient is that of the mean over the whole batch, however it is divided:
  /// the sum of the losses of all ranks and micro-steps, divided by the sum of their weights. Adds
  /// the step's sums to `meters`. `commit`, if given, is called between the reduction, after which
  /// the sums are in `meters`, and the first weight change. If it, or anything before it, throws a
  /// PeerError, the model is unchanged. Errors: PeerError, and those of the loader and the task.
  using Commit = std::function<void()>;
  void run(const StepPartition& partition,
           const StepNumber& number,
           const StepRates& rates,
           Meters& meters,
           const Commit& commit = {});

  /// What is not finite, if training must end after this step; no value: it continues. If such
  /// steps are skipped, only too many in a row end it.
  std::optional<std::string> why_not_finite(const AgreedStep& agreed);

  /// `all_but_weights`: for saves, because the Checkpointer compares the weights.
  /// The first comparison after a start or a resume always covers everything.
  enum class Compare { everything, all_but_weights };
  /// Describes what differs, and on which ranks; no value: all is bit-equal. All ranks call it.
  /// Errors: PeerError.
  std::optional<std::string> find_diverged_replicas(Compare what);

 private:
  void set_phase(Phase phase) const { enter_phase(parts_.page, phase); }
  /// The gradient of `loss` with which backward starts, all `factor`. Reuses the same tensor, which
  /// saves the launches of a product with the loss, of its backward and of a tensor of ones.
  const at::Tensor& initial_gradient(const at::Tensor& loss, double factor);
  /// `weight` ([1] of float64) is changed.
  void divide_by_weight(at::Tensor weight, double least, std::int64_t global_batch);
  void run_passes(const StepPartition& partition, const StepNumber& number, Meters& meters);
  void close(const StepNumber& number, Meters& meters) const;

  Parts parts_;
  at::Tensor initial_gradient_;  // from the last backward
  double initial_factor_ = 1;
  int bad_losses_ = 0;         // in a row
  bool has_compared_ = false;  // since the start or a resume
};

}  // namespace ddp::worker
