// Finds the sockets of this process, to close connections that a library owns: Gloo's abort()
// leaves them open, and a peer would keep waiting for this rank.
#pragma once

#include <sys/types.h>

#include <set>
#include <utility>

namespace ddp::worker {

/// Descriptor and inode. The inode differs once the descriptor number has been reused.
using Connection = std::pair<int, ino_t>;

/// All open sockets of this process; none without /proc.
std::set<Connection> open_connections();

/// Those of `connections` that are connected to a peer by IPv4 or IPv6.
std::set<Connection> only_connected(const std::set<Connection>& connections);

/// Whether this process still has all of them open, whatever the other end does.
bool are_open(const std::set<Connection>& connections);

/// Shuts both directions down, so that both sides see the end. Skips sockets that are closed
/// already.
void shut_down(const std::set<Connection>& connections);

}  // namespace ddp::worker
