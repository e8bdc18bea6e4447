// The listening sockets of a job's one port, in IPv4 and IPv6. Trap: with port 0 the kernel picks a
// port that is free at one address; it may be taken at another, and then all begins anew.
#pragma once

#include <list>

#include "launcher/os/asio.h"
#include "launcher/plan/listen_addresses.h"

namespace ddp::launcher {

struct Listeners {
  std::list<tcp::acceptor> acceptors;  // a list: whoever accepts keeps a reference
  int port = 0;
};

/// `port`: 0 for a free one. An address that this node lacks is left out, but for the first one.
/// Errors: SystemError, 202 when the port is taken (with its owner) or none of `where.own` is of
/// this node.
Listeners listen_at(asio::io_context& io, const ListenAddresses& where, int port);

}  // namespace ddp::launcher
