// A rank 0 that does not join listens on the port of its store until the others have read why. It
// has a socket of its own, not LibTorch's store: the store's only thread looks up the name of every
// client, so a slow name server delays all; and a client of the store prints a stack when the store
// ends.
// Promises: a caller that is not a rank of this job, or sends something else, changes nothing.
#pragma once

#include <chrono>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

/// Sends `why` to all who connect, until each other rank of the job has reported its own error,
/// then tells all of them to leave. A caller with rank 0 comes from a new start of the job: this
/// function returns at once, so that it gets the port. Blocks: until then, at most `limit`. Errors:
/// none; if the port is taken, or the process has no descriptors left, some ranks are not told.
void serve_refusal(const WorkerIdentity& self,
                   const std::string& why,
                   std::chrono::milliseconds limit);

}  // namespace ddp::worker
