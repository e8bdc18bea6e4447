// A rank that outlives a lost peer and goes on in the next round without a restart (launch.restart:
// failed), while the ranks that are gone are started again. Every rank holds the whole state, so
// one that is left is enough: it is read from memory, not from the disk, and no step is done twice.
#pragma once

#include <optional>

#include "common/node/identity.h"
#include "common/progress/progress_page.h"
#include "worker/dist/device.h"
#include "worker/dist/group.h"
#include "worker/train/snapshot.h"

namespace ddp::worker {

/// The state that is left of a round: its position, and tensors with the names of a run's shared
/// state.
struct HeldState {
  Position position;
  SharedState shared;
};

/// The step of a rank that holds no state.
inline constexpr std::int64_t kNoStep = -1;

/// Whether all ranks of this round can outlive the loss of one: their agents want them to, and they
/// train on CPUs (what NCCL has begun on a GPU cannot be taken back). All ranks call it. Errors:
/// PeerError.
bool can_survive(Group& group, const Device& device, ProgressPage& page);

/// Whether this rank waits for the next round after that error: can_survive() was true, and a peer
/// was lost.
bool waits_after(const PeerError& loss, ProgressPage& page);

/// The rank that has done the most steps of those that hold a state, the lowest of equal ones; no
/// value when none holds a state. `held` may be null. All ranks call it. Errors: PeerError.
std::optional<int> find_newest(Group& group, const HeldState* held);

/// Tells the agent that this rank waits, holding a state of `step` (or kNoStep), and waits for the
/// next round. Returns this process's identity in that round; no value when the agent does not want
/// it. Blocks: until the agent begins that round, or ends the process.
std::optional<WorkerIdentity> await_next_round(const WorkerIdentity& self,
                                               ProgressPage& page,
                                               std::int64_t step);

}  // namespace ddp::worker
