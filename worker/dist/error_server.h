// A rank 0 that does not join listens on the port of its store until the others have read why. It
// uses a socket of its own and not LibTorch's store: the store's only thread looks up the name of
// every client, so a slow name server delays all; and clients print a stack when the store ends.
// Promises: callers that are not ranks of this job, or send anything else, are ignored.
#pragma once

#include <chrono>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

/// Sends `why` to all who connect, until each other rank of the job has reported its own error;
/// then tells all of them to exit. If a rank 0 connects, the job was started again: this function
/// returns at once, to free the port. Blocks: until then, at most `limit`. Errors: none; if the
/// port is taken, or the process has no descriptors left, some ranks get no answer.
void serve_error(const WorkerIdentity& self,
                 const std::string& why,
                 std::chrono::milliseconds limit);

}  // namespace ddp::worker
