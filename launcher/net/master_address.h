// What the master address of a job stands for on this node: numbers as they are, names as the
// system resolves them. Trap: "localhost" is loopback whatever /etc/hosts says, and an IPv4 address
// written as an IPv6 one is the IPv4 one.
#pragma once

#include <string>

#include "launcher/plan/start/listen_addresses.h"

namespace ddp::launcher {

/// Whether nobody on another machine reaches the endpoint of a job of several nodes that has this
/// master address, as it is asked for: localhost, 127.0.0.0/8 or ::1. Any other name stands for an
/// address that others reach.
bool is_for_this_machine(const std::string& master_addr);

/// `asks_whose`: whether the addresses are this node's. Blocks: while a host name is resolved.
/// Errors: SystemError when the interfaces cannot be read; a name without address is in the result.
MasterAddress look_up_master(const std::string& name, bool asks_whose);

}  // namespace ddp::launcher
