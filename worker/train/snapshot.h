// All that must come back for training to go on bit for bit, taken from the running parts and put
// back into them. Rank 0 alone touches the disk; the others give and get their share through the
// group, so no shared disk is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/dist/ddp.h"
#include "worker/dist/group.h"
#include "worker/save/checkpoint.h"
#include "worker/save/tensor_copy.h"
#include "worker/train/meters.h"

namespace ddp::worker {

/// Where training stands.
struct Position {
  std::int64_t step = 0;           // optimizer steps done
  std::int64_t epoch = 0;          // the running epoch
  std::int64_t step_in_epoch = 0;  // of it, done
  Meter meter;                     // this rank's sums over the running epoch
  std::optional<double> best;      // best test accuracy so far
};

/// The tensors of a run that are equal on all ranks. They share memory with the model and the
/// optimizer.
struct SharedState {
  std::vector<NamedTensor> model;  // parameters and buffers
  std::vector<NamedTensor> optimizer;
};

/// Puts buffers and the random numbers of the CPU back, at its end, to what they were at its start;
/// not when it ends because of an exception: a device that has failed must not be waited for.
class Rewind {
 public:
  explicit Rewind(std::vector<NamedTensor> buffers);
  Rewind(const Rewind&) = delete;
  Rewind& operator=(const Rewind&) = delete;
  ~Rewind();

 private:
  std::vector<NamedTensor> buffers_;
  std::vector<at::Tensor> saved_;
  at::Tensor random_;
  int exceptions_;  // under way at its start
};

/// What rank 0 saves. The tensors inside are copies and stay valid.
struct Snapshot {
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;
  std::vector<NamedTensor> state;  // "rng" [world_size, bytes], "meter" [world_size, 3]
};

/// Takes a snapshot. All ranks call it; only rank 0's result is complete. Errors: PeerError.
Snapshot take_snapshot(Group& group, const SharedState& shared, const Meter& meter);

/// Puts a checkpoint back on every rank. Only rank 0 passes one, or none to start anew (the
/// position is then the start). Errors: UsageError with the list of tensors that do not fit (rank
/// 0); PeerError.
Position restore(Group& group, const LoadedCheckpoint* checkpoint, SharedState& shared);

}  // namespace ddp::worker
