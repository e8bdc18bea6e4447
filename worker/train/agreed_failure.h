// Ends of a run that all ranks agree on: bad numbers, or rank 0 cannot save. Rank 0 says why, every
// rank writes the reason into its error file, and all leave with the same code. Which rank is seen
// to leave first, and is named by the launcher, is chance: so each has the reason.
#pragma once

#include <cstdint>
#include <string>

#include "worker/dist/group.h"

namespace ddp::worker {

/// `what` is not finite. Returns the exit code.
int fail_as_diverged(const Group& group, const std::string& what);

/// The ranks no longer hold the same after `step`; `what` says what differs, and where. Returns the
/// exit code.
int fail_as_different(const Group& group, std::int64_t step, const std::string& what);

/// Rank 0 could not save, and has said `why`; what the others give does not count. All ranks call
/// it. Returns the exit code. Where an agent serves the store, it leaves by Refused with that code
/// instead. Blocks: there the others until rank 0 has left, whose failure it is. Errors: PeerError.
int fail_as_unsaved(Group& group, const std::string& why);

}  // namespace ddp::worker
