// The listening sockets of a job's one port, in IPv4 and IPv6. Trap: with port 0 the kernel picks a
// port that is free at one address; if it is taken at another, all addresses are tried again.
#pragma once

#include <functional>
#include <list>
#include <string>

#include "common/error.h"
#include "launcher/os/asio.h"
#include "launcher/plan/start/listen_addresses.h"

namespace ddp::launcher {

/// Another program listens there.
struct PortTaken : SystemError {
  using SystemError::SystemError;
};

struct Listeners {
  std::list<tcp::acceptor> acceptors;  // a list, as coroutines keep references
  int port = 0;
};

/// The use of a port, for messages when it is not available.
struct PortUse {
  const char* name;
  const char* flag;
  int taken_code;  // exit code if another program has it
  int other_code;
};
inline constexpr PortUse kJobPort{
    "port of the job", "--master-port", exit_code::kRendezvous, exit_code::kInternal};
inline constexpr PortUse kPagePort{
    "port of the page", "--web", exit_code::kUsage, exit_code::kUsage};

/// Listens for a job with this master address, where plan/start/listen_addresses says. `notice`
/// takes a line for the user. Blocks: while a host name is resolved. Errors: as listen_at().
Listeners listen_for_job(asio::io_context& io,
                         const std::string& master_addr,
                         int port,
                         bool has_several_nodes,
                         const std::function<void(const std::string&)>& notice);

/// `port`: 0 for a free one. An address that this node lacks is left out. Errors: PortTaken with
/// use.taken_code, and the owner in its text; SystemError with the same code if binding is not
/// permitted, with 202 if no address of `where.own` is this node's, with use.other_code if none of
/// `where.basic` is.
Listeners listen_at(asio::io_context& io,
                    const ListenAddresses& where,
                    int port,
                    const PortUse& use = kJobPort);

}  // namespace ddp::launcher
