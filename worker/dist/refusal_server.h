// A rank 0 that does not join listens on the port of its store, for as long as the others need to
// hear why. A socket of its own, not LibTorch's store: that one looks up the name of anyone who
// connects, in its only thread, so a slow name server keeps all waiting; and a client of it prints
// a stack when it ends.
// Promises: who is not a rank of this job, or says something else, changes nothing.
#pragma once

#include <chrono>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

/// Tells `why` to all who connect, until each other rank of the job has said its own, then leaves
/// them all at once. One rank 0 that comes is that of a new start: it gets the port, without a
/// word. Blocks: until then, `limit` at most. Errors: none; where the port is another's, or where
/// the process has no descriptors left, some are not told.
void serve_refusal(const WorkerIdentity& self,
                   const std::string& why,
                   std::chrono::milliseconds limit);

}  // namespace ddp::worker
