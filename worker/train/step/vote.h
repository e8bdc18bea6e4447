// What all ranks must decide alike after a step: whether to stop, whether to save, whether the loss
// is still a number. One small sum over ranks per step travels while the next steps compute; its
// result takes effect later, on every rank at the same step. Alone it costs nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/dist/group.h"
#include "worker/train/step/meters.h"

namespace ddp::worker {

/// The outcome of rank 0's saves so far; all zero on the other ranks.
struct SaveOutcome {
  double count = 0;            // of checkpoints that are on the disk
  double step = 0;             // of the newest of them
  double given_up = 0;         // 1: too many of them failed
  double not_finite_step = 0;  // after which a weight was not finite; 0: none
  double diverged_step = 0;    // after which the ranks held different weights; 0: none

  bool operator==(const SaveOutcome&) const = default;
};

/// What a rank wants; as a sum over ranks: how many want it.
struct VoteRequest {
  double stop = 0;    // with a checkpoint, to be continued: it was asked to
  double save = 0;    // its clock says that it is time
  double finish = 0;  // a hook wants the run to end here
  double bad = 0;     // samples of this epoch that could not be read
  SaveOutcome saves{};
};

/// A step that all ranks have done.
struct AgreedStep {
  std::int64_t step = 0;
  std::chrono::steady_clock::time_point at;  // when this rank gave its vote
  VoteRequest request;                       // at that moment
  StepSums sums;                             // of all ranks
  double skips = 0;                          // steps in a row that were skipped
};

class Votes {
 public:
  /// Both outlive it.
  Votes(Group& group, Meters& meters) : group_(group), meters_(meters) {}

  /// Call it after each step, on every rank: starts a vote with the sums of the step before, which
  /// are on the host by now, and returns the result of the earlier vote. Errors: PeerError.
  std::optional<AgreedStep> after_step(const VoteRequest& mine);

  /// All steps whose votes were not returned yet, the newest included. Blocks: until all ranks have
  /// done them. All ranks call it. Errors: PeerError.
  std::vector<AgreedStep> drain(const VoteRequest& mine);

 private:
  struct Pending {
    std::int64_t step = 0;
    std::chrono::steady_clock::time_point at;
    double skips = 0;
    std::unique_ptr<PendingSum> sum;
  };

  void propose(const Meters::Closed& closed, const VoteRequest& mine);
  std::optional<AgreedStep> take();

  Group& group_;
  Meters& meters_;
  std::optional<Pending> pending_;
};

}  // namespace ddp::worker
