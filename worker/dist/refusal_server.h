// A rank 0 that does not join stands where the others look for its store, for as long as they need
// to hear why. A socket of its own, not LibTorch's store: that one looks up the name of whoever
// connects, in its only thread, so a slow name server keeps all waiting; and a client of it prints
// a stack when it ends.
#pragma once

#include <chrono>
#include <string>

namespace ddp::worker {

/// Tells `why` to all who connect to `port` of this node, until the ranks from 1 to `others` have
/// confirmed it, then leaves them all at once. Blocks: until then, `limit` at most. Errors:
/// none; where the port is another's nobody is told.
void serve_refusal(int port, const std::string& why, int others, std::chrono::milliseconds limit);

}  // namespace ddp::worker
