// The addresses of names, as the system finds them: the probe asks the system's resolver modules
// (/etc/hosts, DNS, mDNS, LDAP and so on). Where the probe cannot run, as in an image without
// glibc, /etc/hosts and DNS are asked here.
#pragma once

#include <string>
#include <vector>

#include "launcher/os/asio.h"
#include "launcher/plan/start/listen_addresses.h"

namespace ddp::launcher {

struct Addresses {
  std::vector<asio::ip::address> list;  // each once, sorted
  std::string problem;                  // why there is none; empty: there is one
};

/// A number is its own address. Suspends: until the system has answered, which takes at most a
/// minute. Errors: SystemError when no process can be started.
asio::awaitable<Addresses> resolve_name(asio::io_context& io, std::string name);

/// The same. Blocks.
Addresses resolve_name(const std::string& name);

/// Whether no other machine can reach this master address, as typed: localhost, 127.0.0.0/8 or ::1.
/// Any other name counts as an address that others reach.
bool is_for_this_machine(const std::string& master_addr);

/// Resolves the master address of a job on this node: numbers as they are, names by the system's
/// resolver. Trap: "localhost" is loopback whatever /etc/hosts says, and an IPv4-mapped IPv6
/// address is the IPv4 one. `asks_whose`: also find out which addresses are this node's. Blocks:
/// while a host name is resolved. Errors: SystemError when the interfaces cannot be read; for a
/// name without address the result has the problem.
MasterAddress look_up_master(const std::string& name, bool asks_whose);

}  // namespace ddp::launcher
