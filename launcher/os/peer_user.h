// The user behind a TCP connection from this node: the owner of the socket at its other end, as the
// kernel shows it. Source: sock_diag(7), an exact query of some microseconds; if that is not
// available, /proc/net/tcp and tcp6.
// Traps: a socket without a holder (its process closed it, or is gone) is shown as root's with
// inode 0, so such an answer names no user. "No such socket" and "no such service" are one error
// (ENOENT); a query for our own listening socket, which always exists, tells them apart. A user
// namespace shows users that it does not know as 65534 (user_namespaces(7)).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "common/files/descriptor.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {

class PeerUsers {
 public:
  struct Owner {
    bool can_tell = true;       // this system has a source
    std::optional<uid_t> user;  // nothing: no such socket here, or it has no holder
  };

  PeerUsers();
  /// Uses no sock_diag, for tests of the other source.
  static PeerUsers from_files();

  /// The owner of the socket `peer`, the other end of a connection of ours at `own`, where we
  /// listen.
  Owner owner_of(const tcp::endpoint& peer, const tcp::endpoint& own);

 private:
  explicit PeerUsers(int netlink) : netlink_(netlink) {}

  Descriptor netlink_;  // none: read the files
  std::uint32_t sequence_ = 0;
  bool is_proven_ = false;  // netlink has named a socket
};

/// "65534 (nobody)", with the name from /etc/passwd, as a name service could block the loop.
std::string describe_user(uid_t user);

}  // namespace ddp::launcher
