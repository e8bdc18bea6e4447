// Copies the whole state of training out of the running parts and back into them, so that a run
// resumes bit for bit. Only rank 0 uses the disk; the others get the state by broadcasts, so no
// shared disk is needed. Random numbers come from counters (plan/random), so no generator is saved.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "worker/dist/group.h"
#include "worker/plan/best_result.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/train/step/meters.h"

namespace ddp::worker {

/// Where training stands; the same on every rank.
struct Position {
  std::int64_t step = 0;           // optimizer steps done
  std::int64_t epoch = 0;          // the current epoch, from 0
  std::int64_t step_in_epoch = 0;  // steps done in that epoch
  StepSums epoch_sums;             // of all ranks, over the current epoch so far
  BestResultState best_state;
  std::optional<double> result{};  // monitored value, if exactly these weights were evaluated
  StepSums last_step_sums{};       // of all ranks; samples 0: not known
};

/// The tensors of a run that are equal on all ranks. They share memory with the model and the
/// optimizer.
struct SharedState {
  std::vector<NamedTensor> model;  // parameters and buffers
  std::vector<NamedTensor> optimizer;
  std::vector<NamedTensor> policy{};  // of EvaluationPolicy: small, float64, on the host
};

/// What rank 0 saves. The tensors are copies, with the strides of the originals.
struct Snapshot {
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;  // and the evaluation policy's
  std::vector<NamedTensor> state;      // "sums" as SumNames::to_row, "watch" [1]: without_gain
};

/// Host memory for snapshots: allocated once; pinned for tensors that come from a device.
class SnapshotArena {
 public:
  /// Allocates the memory, so that the first snapshot is as fast as the others.
  explicit SnapshotArena(const SharedState& shared);

  /// Copies the state. Blocks: until the copies from the device are done. The result is valid until
  /// the next call.
  const Snapshot& take(const SharedState& shared, const Position& position);

 private:
  Snapshot snapshot_;
};

/// The tensors in C order; those with another layout are copied.
std::vector<NamedTensor> in_c_order(const std::vector<NamedTensor>& tensors);

/// The values that an evaluation changes after a snapshot, by the names of their tensors: for
/// CheckpointHead::amended_tensors.
std::map<std::string, std::vector<double>> amended_tensors_of(const SharedState& shared,
                                                              const Position& position);

/// Copies on the host, in C order.
std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors);

/// Broadcasts the values of rank `from` for tensors of any strides: Gloo itself needs one dense
/// block in C order. All ranks call it. Errors: PeerError.
void broadcast_tensor(Group& group, const at::Tensor& tensor, int from = 0);

/// Which job has written a checkpoint.
enum class Origin {
  same_job,
  other_job,  // optimizer state may be missing; its best result is ignored
};

/// Restores a checkpoint on every rank. Only rank 0 passes one; null: nothing is restored, and the
/// position is the start. Ignores the checkpoint's sums if they do not fit `names`. With another
/// job's checkpoint, missing optimizer state stays as initialised, and missing averages and master
/// weights are set to the loaded weights. Errors: UsageError with the list of tensors that do not
/// fit (rank 0); PeerError.
Position restore(Group& group,
                 const LoadedCheckpoint* checkpoint,
                 Origin origin,
                 const SumNames& names,
                 SharedState& shared);

/// Copies the state of rank `from` to every rank. Only that rank passes `position`, and `held`,
/// which has the names and shapes of `shared`. All ranks call it. Errors: PeerError.
Position restore_from_rank(Group& group,
                           int from,
                           const Position* position,
                           const SharedState* held,
                           const SumNames& names,
                           SharedState& shared);

}  // namespace ddp::worker
