// Failures that all ranks know of: numbers that are not finite, replicas that differ, or a save
// that failed on rank 0. Rank 0 logs the reason, and every rank writes it into its error file,
// because the launcher shows the file of whichever rank it sees exit first.
#pragma once

#include <cstdint>
#include <string>

#include "worker/dist/group.h"

namespace ddp::worker {

/// For a value `what` that is not finite. Returns the exit code.
int fail_as_not_finite(const Group& group, const std::string& what);

/// For replicas that differ after `step`; `what` says in what, and on which rank. Returns the exit
/// code.
int fail_as_replicas_differ(const Group& group, std::int64_t step, const std::string& what);

/// For a save that failed on rank 0, which has logged `why`; `why` of other ranks is ignored. All
/// ranks call it. Returns the exit code. If an agent serves the store, it throws AlreadyReported
/// instead: with that code on rank 0, with kLostPeer on the others, which are victims and wait
/// until rank 0 has exited. Errors: PeerError.
int fail_as_save_failed(Group& group, const std::string& why);

}  // namespace ddp::worker
