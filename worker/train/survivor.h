// A survivor: a rank that outlives a lost peer and continues in the next round without a restart
// (launch.restart: failed), while lost ranks are started again. Every rank holds the whole state,
// so one survivor is enough to restore it from memory, not from disk, and no step is done twice.
#pragma once

#include <optional>

#include "common/node/identity.h"
#include "common/progress/progress_page.h"
#include "worker/dist/device.h"
#include "worker/dist/group.h"
#include "worker/train/snapshot.h"

namespace ddp::worker {

/// The state that a survivor keeps: the position, and the tensors of SharedState.
struct HeldState {
  Position position;
  SharedState shared;
};

/// The step of a rank that holds no state.
inline constexpr std::int64_t kNoStep = -1;

/// Whether all ranks of this round can outlive the loss of one: their agents allow it, and they
/// train on CPUs (work that NCCL has begun on a GPU cannot be undone). All ranks call it. Errors:
/// PeerError.
bool can_survive(Group& group, const Device& device, ProgressPage& page);

/// Whether this rank waits for the next round after `loss`: can_survive() was true, and a peer was
/// lost.
bool waits_for_next_round(const PeerError& loss, ProgressPage& page);

/// Of the ranks that hold a state, the one that has done the most steps (in a tie the lowest); no
/// value when none holds a state. `held` is this rank's, or null. All ranks call it. Errors:
/// PeerError.
std::optional<int> find_newest(Group& group, const HeldState* held);

/// Tells the agent that this rank holds a state of `step` (or kNoStep), and waits for the next
/// round. Returns this process's identity in that round; no value when the agent does not keep it.
/// Blocks: until the agent begins the round, or ends the process.
std::optional<WorkerIdentity> await_next_round(const WorkerIdentity& self,
                                               ProgressPage& page,
                                               std::int64_t step);

}  // namespace ddp::worker
