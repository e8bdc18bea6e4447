// Ends of a run that all ranks agree on: bad numbers, or rank 0 cannot save. Rank 0 says why, and
// every rank writes the reason into its error file: after bad numbers all leave with the same code,
// and chance decides which one the launcher sees first and names.
#pragma once

#include <cstdint>
#include <string>

#include "worker/dist/group.h"

namespace ddp::worker {

/// `what` is not finite. Returns the exit code.
int fail_as_not_finite(const Group& group, const std::string& what);

/// The ranks no longer hold the same after `step`; `what` says what differs, and where. Returns the
/// exit code.
int fail_as_replicas_differ(const Group& group, std::int64_t step, const std::string& what);

/// Rank 0 could not save, and has said `why`; what the others give does not count. All ranks call
/// it. Returns the exit code. Where an agent serves the store, throws Refused instead, with that
/// code on rank 0 and with kLostPeer on the others, whose failure it is not. Blocks: there the
/// others, until rank 0 has left. Errors: PeerError.
int fail_as_save_failed(Group& group, const std::string& why);

}  // namespace ddp::worker
