// What all ranks must decide alike after a step: whether to stop, whether to save, whether the loss
// is still a number. One small sum over ranks per step, which travels while the next step computes;
// its answer counts one step later, on every rank at the same step. Alone it is free.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/dist/group.h"

namespace ddp::worker {

/// One rank's part, or all of it after the sum.
struct StepVote {
  double loss = 0;              // sum over samples
  double count = 0;             // samples
  double stop = 0;              // ranks that were asked to stop
  double save = 0;              // ranks whose clock says it is time
  std::vector<double> parts{};  // of the loss, by the job's order: sums over samples
};

struct AgreedStep {
  std::int64_t step = 0;                     // the optimizer step that was voted on
  std::chrono::steady_clock::time_point at;  // when this rank had done it
  StepVote vote;
};

class StopAgreement {
 public:
  explicit StopAgreement(Group& group) : group_(group) {}

  /// Starts the vote on `step`. Precondition: no vote is under way. Errors: PeerError.
  void propose(std::int64_t step, const StepVote& mine);

  /// The vote under way, or nothing. Blocks: until all ranks have voted. Errors: PeerError.
  std::optional<AgreedStep> take();

 private:
  Group& group_;
  std::int64_t step_ = 0;
  std::chrono::steady_clock::time_point at_;
  std::unique_ptr<PendingSum> pending_;  // null: no vote is under way
};

}  // namespace ddp::worker
