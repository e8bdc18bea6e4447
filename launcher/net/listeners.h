// The listening sockets of a job's one port, in IPv4 and IPv6. Trap: with port 0 the kernel picks a
// port that is free at one address; it may be taken at another, and then all begins again.
#pragma once

#include <functional>
#include <list>
#include <string>

#include "common/error.h"
#include "launcher/os/asio.h"
#include "launcher/plan/start/listen_addresses.h"

namespace ddp::launcher {

/// Somebody else listens there.
struct PortTaken : SystemError {
  using SystemError::SystemError;
};

struct Listeners {
  std::list<tcp::acceptor> acceptors;  // a list: anyone who accepts keeps a reference
  int port = 0;
};

/// What a port is for, to say what to do where it cannot be had.
struct PortUse {
  const char* name;
  const char* flag;
  int taken_code;  // of the program, when somebody else has it
  int other_code;
};
inline constexpr PortUse kJobPort{
    "port of the job", "--master-port", exit_code::kRendezvous, exit_code::kInternal};
inline constexpr PortUse kPagePort{
    "port of the page", "--web", exit_code::kUsage, exit_code::kUsage};

/// Those of a job with this master address: where plan/start/listen_addresses says; `notice` takes
/// a line for the user. Blocks: while a host name is resolved. Errors: as listen_at().
Listeners listen_for_job(asio::io_context& io,
                         const std::string& master_addr,
                         int port,
                         bool has_several_nodes,
                         const std::function<void(const std::string&)>& notice);

/// `port`: 0 for a free one. An address that this node lacks is left out. Errors: PortTaken,
/// use.taken_code (with its owner); SystemError, the same code when the port may not be taken, 202
/// when none of `where.own` is of this node, use.other_code when none of `where.basic` is.
Listeners listen_at(asio::io_context& io,
                    const ListenAddresses& where,
                    int port,
                    const PortUse& use = kJobPort);

}  // namespace ddp::launcher
