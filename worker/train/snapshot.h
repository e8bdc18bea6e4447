// All that must come back for training to go on bit for bit, taken from the running parts and put
// back into them. Rank 0 alone touches the disk; the others get their share through the group, so
// no shared disk is needed. Random numbers are counted (plan/random), so none of them is in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/dist/group.h"
#include "worker/plan/watch.h"
#include "worker/save/checkpoint.h"
#include "worker/save/tensor_copy.h"
#include "worker/train/tally.h"

namespace ddp::worker {

/// Where training stands; the same on every rank.
struct Position {
  std::int64_t step = 0;           // optimizer steps done
  std::int64_t epoch = 0;          // the running epoch
  std::int64_t step_in_epoch = 0;  // of it, done
  StepSums sums;                   // of all ranks, over the running epoch
  WatchState watch;
  std::optional<double> result{};  // of an evaluation of these very weights, in what is watched
};

/// The tensors of a run that are equal on all ranks. They share memory with the model and the
/// optimizer.
struct SharedState {
  std::vector<NamedTensor> model;  // parameters and buffers
  std::vector<NamedTensor> optimizer;
};

/// What rank 0 saves. The tensors inside are copies and stay valid.
struct Snapshot {
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;
  std::vector<NamedTensor> state;  // "sums" as SumNames::to_row, "watch" [1]: without_gain
};

/// On the host and in C order, whatever the memory format.
std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors);

/// Rank 0's values to all, whatever the memory format: Gloo wants one dense block in C order.
/// All ranks call it. Errors: PeerError.
void broadcast_tensor(Group& group, const at::Tensor& tensor);

Snapshot take_snapshot(const SharedState& shared, const Position& position);

/// Puts a checkpoint back on every rank. Only rank 0 passes one, or none to start anew (the
/// position is then the start). Sums of a checkpoint that do not fit `names` are left out. Errors:
/// UsageError with the list of tensors that do not fit (rank 0); PeerError.
Position restore(Group& group,
                 const LoadedCheckpoint* checkpoint,
                 const SumNames& names,
                 SharedState& shared);

}  // namespace ddp::worker
