// Ends of a run that the ranks agree on. By the run's own numbers: rank 0 says why, every rank
// writes it into its error file, and all leave with the same code. By rank 0's disk: the others
// leave as its victims.
#pragma once

#include <cstdint>
#include <string>

#include "worker/dist/group.h"

namespace ddp::worker {

/// `what` is not finite. Returns the exit code.
int diverged(const Group& group, const std::string& what);

/// The ranks no longer hold the same after `step`; `what` says what differs, and where. Returns the
/// exit code.
int differ(const Group& group, std::int64_t step, const std::string& what);

/// Rank 0 could not save, and has said why: `why` there, nothing on the others, which leave as its
/// victims. Returns the exit code.
int save_failed(const Group& group, const std::string& why);

}  // namespace ddp::worker
