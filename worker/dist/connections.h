// The sockets of this process, to end connections that a library owns: Gloo's abort() leaves them
// open, and a peer would go on waiting for this rank.
#pragma once

#include <sys/types.h>

#include <set>
#include <utility>

namespace ddp::worker {

/// Descriptor and inode. The inode differs once the descriptor number has been reused.
using Connection = std::pair<int, ino_t>;

/// All open sockets of this process; none where there is no /proc to tell them.
std::set<Connection> open_connections();

/// Those of `connections` that are connected to a peer by IPv4 or IPv6.
std::set<Connection> with_peer(const std::set<Connection>& connections);

/// Whether this process still has all of them open. Says nothing about the other end.
bool are_open(const std::set<Connection>& connections);

/// Shuts both directions down, so that the owners on both sides see the end. Skips those that are
/// closed by now.
void shut_down(const std::set<Connection>& connections);

}  // namespace ddp::worker
