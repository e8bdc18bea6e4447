// The listening sockets of a job's one port, in IPv4 and IPv6. Trap: with port 0 the kernel picks a
// port that is free at one address; it may be taken at another, and then all begins anew.
#pragma once

#include <functional>
#include <list>
#include <string>

#include "common/error.h"
#include "launcher/os/asio.h"
#include "launcher/plan/listen_addresses.h"

namespace ddp::launcher {

/// Somebody else listens there.
struct PortTaken : SystemError {
  using SystemError::SystemError;
};

struct Listeners {
  std::list<tcp::acceptor> acceptors;  // a list: whoever accepts keeps a reference
  int port = 0;
};

/// Those of a job with this master address: where plan/listen_addresses says; `notice` takes a line
/// for the user. Blocks: while a host name is resolved. Errors: as listen_at().
Listeners listen_for_job(asio::io_context& io,
                         const std::string& master_addr,
                         int port,
                         bool has_several_nodes,
                         const std::function<void(const std::string&)>& notice);

/// `port`: 0 for a free one. An address that this node lacks is left out, but for the first one.
/// Errors: PortTaken, 202 (with its owner); SystemError, 202 when the port may not be taken, or
/// none of `where.own` is of this node.
Listeners listen_at(asio::io_context& io, const ListenAddresses& where, int port);

}  // namespace ddp::launcher
