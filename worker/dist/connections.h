// The sockets of this process, to end connections that belong to a library: Gloo's abort() leaves
// them open, and a peer that waits for us would wait on.
#pragma once

#include <sys/types.h>

#include <set>
#include <utility>

namespace ddp::worker {

/// Descriptor and inode, which is another one where the descriptor has been used again.
using Connection = std::pair<int, ino_t>;

/// All that are open. Errors: SystemError.
std::set<Connection> open_connections();

/// Those of `connections` that have a peer at the other end of a network.
std::set<Connection> with_peer(const std::set<Connection>& connections);

/// Whether this process still has all of them open. Says nothing of the other end.
bool are_open(const std::set<Connection>& connections);

/// Nothing comes or goes by them any more; who owns them sees their end, here as on the other side.
/// What is closed by now is left out.
void shut_down(const std::set<Connection>& connections);

}  // namespace ddp::worker
