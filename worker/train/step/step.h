// One optimizer step on one rank: micro-steps, the reduction over ranks, the optimizer. Nothing in
// it waits for a device.
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
  /// Everything outlives the step.
  struct Parts {
    const Job& job;
    Group& group;
    Ddp& replica;
    const Forward& forward;
    Precision& precision;
    Optimizer& optimizer;
    BatchLoader& loader;  // of the training set
    ProgressPage& page;
    // Draws rank 0's pictures of a first micro-step, given the steps done before it; null: none are
    // made.
    std::function<void(const Batch&, std::int64_t)> show;
  };

  explicit Step(Parts parts) : parts_(std::move(parts)) {}

  /// Runs passes and throws their gradients away, until the layout of the reducer's buckets is
  /// final; at least one pass, which also gives the names of a pass's sums. Restores the buffers.
  /// `samples` are those of one pass. Errors: PeerError, also (203) when these names differ between
  /// ranks.
  SumNames fix_bucket_layout(const std::vector<std::int64_t>& samples);

  /// The steps to come are those from step `step_in_epoch` of `epoch` on, in order; their samples
  /// are loaded ahead.
  void start(const PartitionRequest& partition, std::int64_t epoch, std::int64_t step_in_epoch);

  struct Place {
    std::int64_t step = 0;  // optimizer steps done in the run
    std::int64_t epoch = 0;
  };
  /// Runs one step. The gradient is that of the mean over the whole batch, however it was dealt
  /// out: the sum of all losses over all ranks and micro-steps divided by the sum of their weights.
  /// The sums of the step go to `meters`. `commit`, if given, is called when the gradients are
  /// those of all ranks and the sums are in `meters`, before any weight changes. A PeerError before
  /// it or in it leaves the model as it was. Errors: PeerError, and those of the loader and the
  /// task.
  using Commit = std::function<void()>;
  void run(const StepPartition& partition,
           const Place& place,
           const StepRates& rates,
           Meters& meters,
           const Commit& commit = {});

  /// What is not finite, if training must end after this step; no value: it goes on. Where such
  /// steps are skipped, too many in a row end it.
  std::optional<std::string> why_not_finite(const AgreedStep& agreed);

  /// `all_but_weights` is for runs whose saves compare the weights (Checkpointer).
  /// The first comparison after a start or a resume covers everything in any case.
  enum class Compare { everything, all_but_weights };
  /// What differs between the ranks and on which, as text; no value: all is bit-equal. All ranks
  /// call it. Errors: PeerError.
  std::optional<std::string> find_diverged_replicas(Compare what);

 private:
  void set_phase(Phase phase) const { parts_.page.phase.store(phase, std::memory_order_relaxed); }
  /// What backward of `loss` times `factor` starts from: the same tensor while these are alike, so
  /// that a product with the loss, its backward and a tensor of ones are not launched.
  const at::Tensor& start_of_backward(const at::Tensor& loss, double factor);
  /// `weight` ([1] of float64) is changed.
  void divide_by_weight(at::Tensor weight, double least, std::int64_t whole);
  void run_passes(const StepPartition& partition, const Place& place, Meters& meters);
  void close(const Place& place, Meters& meters) const;

  Parts parts_;
  at::Tensor start_;  // of the last backward
  double start_factor_ = 1;
  int bad_losses_ = 0;         // in a row
  bool has_compared_ = false;  // the replicas' other state, since the start or a resume
};

}  // namespace ddp::worker
