// Which samples of an optimizer step each rank gets, in training (evaluations use
// worker/plan/shard). The whole batch belongs to the run, not to the ranks: step k covers positions
// [k B, (k + 1) B) of the epoch's permutation, for any number of ranks; a rank gets every
// world_size-th of them, in micro-steps.
// Promises: a pure function of the options, the epoch and the step, so a resumed run needs no
// sampler state. If all ranks get equally many samples, they are those of Python's
// DistributedSampler with a DataLoader, sample by sample.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/plan/sample_weights.h"
#include "worker/plan/shard.h"

namespace ddp::worker {

struct PartitionOptions {
  std::int64_t size = 0;          // samples of the data set
  std::int64_t global_batch = 1;  // of an optimizer step, over all ranks
  std::int64_t micro_batch = 1;   // samples of a micro-step, at most
  int world_size = 1;
  int rank = 0;
  // A short last step is padded to a multiple of this: the run's first world size.
  int pad_to_multiple_of = 1;
  std::uint64_t seed = 0;  // the same on every rank
  bool shuffle = true;
  bool drop_last = false;    // no step with less than a whole batch
  std::int64_t repeats = 1;  // each sample comes so often in a row
  /// How often each sample is drawn, with replacement: [size]. Null: each once. Shared by the
  /// epochs of a run.
  std::shared_ptr<const SampleWeights> weights{};
};

/// The samples of one batch, in this order. With `repeats`, the n-th repetition of sample i has the
/// index i + n * size, n from 0.
struct MicroBatch {
  std::vector<std::int64_t> indices;
  std::int64_t epoch = 0;
};

/// One rank's part of one optimizer step.
struct StepPartition {
  // Indices of samples. Every rank has equally many micro-steps, none of them empty.
  std::vector<std::vector<std::int64_t>> micro_steps;
  std::int64_t global_batch = 0;  // samples of all ranks
};

/// Optimizer steps of an epoch: size / global_batch, rounded up, or down with drop_last.
std::int64_t steps_per_epoch(const PartitionOptions& options);

/// The steps of one epoch.
class EpochPartition {
 public:
  /// Errors: std::logic_error for an empty set, a rank outside its world, fewer samples in the
  /// batch than ranks, weights of another size, or more samples than kMaxShardedSize.
  EpochPartition(const PartitionOptions& options, std::int64_t epoch);

  /// The last step of an epoch may be short. It is padded with the first samples of the
  /// permutation, as in Python's sampler, until each of `pad_to_multiple_of` ranks has equally many
  /// samples, but never beyond a whole batch; and until each rank has a sample. Precondition: step
  /// < steps_per_epoch().
  [[nodiscard]] StepPartition step(std::int64_t step) const;

 private:
  PartitionOptions options_;
  std::vector<std::int64_t> order_;
};

/// The micro-batches of one rank, one after the other, from a given step of an epoch on. It never
/// ends: epoch follows epoch.
class PartitionWalk {
 public:
  /// Errors: as EpochPartition, from next().
  PartitionWalk(const PartitionOptions& options, std::int64_t epoch, std::int64_t step)
      : options_(options), epoch_(epoch), step_(step) {}

  MicroBatch next();

 private:
  PartitionOptions options_;
  std::int64_t epoch_;
  std::int64_t step_;  // the next step of the epoch
  std::optional<EpochPartition> partition_;
  std::vector<std::vector<std::int64_t>> left_;  // of the step in progress, the next one last
};

}  // namespace ddp::worker
