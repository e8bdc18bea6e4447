// Ends of a run that its own numbers bring about: rank 0 says why, every rank writes it into its
// error file, and all leave with the same code.
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

}  // namespace ddp::worker
