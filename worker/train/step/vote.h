// What all ranks must decide together after a step: whether to stop, whether to save, whether the
// loss is still finite. Each step starts one small sum over ranks, which completes while the next
// steps compute; its result takes effect later, on every rank at the same step.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/dist/group.h"
#include "worker/train/step/meters.h"

namespace ddp::worker {

/// The outcome of rank 0's saves so far. All zero on other ranks, so a sum over ranks keeps it.
struct SaveOutcome {
  double count = 0;            // of checkpoints on disk
  double step = 0;             // of the newest of them
  double given_up = 0;         // 1: too many of them failed
  double not_finite_step = 0;  // of a save with a weight that was not finite; 0: none
  double diverged_step = 0;    // of a save for which weights differed; 0: none

  bool operator==(const SaveOutcome&) const = default;
};

/// What a rank says with its vote; all members are summed over the ranks. Of stop, save and finish
/// (0 or 1) the sum is the number of ranks that want it.
struct VoteRequest {
  double stop = 0;         // a signal asks for a checkpoint and the end of this process
  double save = 0;         // rank 0: the interval between checkpoints is over
  double finish = 0;       // a hook wants the run to end here
  double bad_samples = 0;  // of this epoch that could not be read
  SaveOutcome saves{};
};

/// A step that all ranks have done, with the result of its vote.
struct AgreedStep {
  std::int64_t step = 0;
  std::chrono::steady_clock::time_point at;  // when this rank gave its vote
  VoteRequest request;                       // the sum of all ranks' requests
  StepSums sums;                             // of all ranks
  double skips = 0;                          // steps in a row that were skipped
};

class Votes {
 public:
  /// The arguments outlive it.
  Votes(Group& group, Meters& meters) : group_(group), meters_(meters) {}

  /// Call it after each step, on every rank. Starts a vote with the sums of the previous step,
  /// which are on the host by now, and returns the result of the vote before it. Errors: PeerError.
  std::optional<AgreedStep> after_step(const VoteRequest& mine);

  /// Completes all votes, including that of the newest step, and returns their results. Blocks:
  /// until all ranks have done these steps. All ranks call it. Errors: PeerError.
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
