// The user behind a TCP connection that comes from this node: whose the socket at its other end is,
// as the kernel has it. By sock_diag(7), an exact question of some microseconds; where that is not
// to be had, by /proc/net/tcp and tcp6.
// Traps: a socket that nobody holds any more (its process closed it, or is gone) is shown as root's
// with inode 0, so such an answer names nobody; "no such socket" and "no such service" are one
// error (ENOENT), so the first of them is told apart by a question for our own listening socket: it
// is there, whatever the other end does meanwhile. A user namespace sees users that it does not
// know as 65534 (user_namespaces(7)).
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
  struct Look {
    bool can_tell = true;       // this system has a source at all
    std::optional<uid_t> user;  // nothing: there is no such socket here, or nobody holds it
  };

  PeerUsers();
  /// Without sock_diag, for tests of the other source.
  static PeerUsers from_files();

  /// Whose socket `peer` is: the other end of a connection of which ours is `own`, where we listen.
  Look probe(const tcp::endpoint& peer, const tcp::endpoint& own);

 private:
  explicit PeerUsers(int netlink) : netlink_(netlink) {}

  Descriptor netlink_;  // none: the files are read
  std::uint32_t sequence_ = 0;
  bool is_proven_ = false;  // netlink has named a socket
};

/// "65534 (nobody)", with the name of /etc/passwd: a name service could keep the loop waiting.
std::string describe_user(uid_t user);

}  // namespace ddp::launcher
