// Resolves the master address of a job on this node: numbers as they are, names by the system's
// resolver. Trap: "localhost" is loopback whatever /etc/hosts says, and an IPv4-mapped IPv6 address
// is the IPv4 one.
#pragma once

#include <string>

#include "launcher/plan/start/listen_addresses.h"

namespace ddp::launcher {

/// Whether no other machine can reach this master address, as typed: localhost, 127.0.0.0/8 or ::1.
/// Any other name counts as an address that others reach.
bool is_for_this_machine(const std::string& master_addr);

/// `asks_whose`: also find out which addresses are this node's. Blocks: while a host name is
/// resolved. Errors: SystemError when the interfaces cannot be read; for a name without address the
/// result has the problem.
MasterAddress look_up_master(const std::string& name, bool asks_whose);

}  // namespace ddp::launcher
