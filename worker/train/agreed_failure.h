// Ends of a run on which all ranks agree: numbers that are not finite, replicas that differ, or a
// save that failed on rank 0. Rank 0 logs the reason, and every rank writes it into its error file:
// all leave with the same code after bad numbers, and chance decides which one the launcher sees
// first and names.
#pragma once

#include <cstdint>
#include <string>

#include "worker/dist/group.h"

namespace ddp::worker {

/// `what` is not finite. Returns the exit code.
int fail_as_not_finite(const Group& group, const std::string& what);

/// The replicas differ after `step`; `what` says in what, and on which rank. Returns the exit code.
int fail_as_replicas_differ(const Group& group, std::int64_t step, const std::string& what);

/// Rank 0 could not save, and has logged `why`; the `why` of other ranks does not count. All ranks
/// call it. Returns the exit code. Where an agent serves the store, throws AlreadyReported instead:
/// with that code on rank 0, with kLostPeer on the others, which are victims. Blocks: there, on the
/// other ranks, until rank 0 has left. Errors: PeerError.
int fail_as_save_failed(Group& group, const std::string& why);

}  // namespace ddp::worker
