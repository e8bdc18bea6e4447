// The network interfaces of this node, and the addresses they have.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "launcher/os/asio.h"

namespace ddp::launcher {

/// Whether the numeric `address` is this node's. All of 127.0.0.0/8 is. Errors: SystemError.
bool is_own_address(const std::string& address);

/// The addresses of all its interfaces. Errors: SystemError.
std::set<asio::ip::address> own_addresses();

/// The interface that has `address`: "eth0", "lo"; empty: none. Errors: SystemError.
std::string interface_of(const std::string& address);

/// "eth0 10.0.0.1" for each address that other nodes could use: no loopback, no link-local one.
/// Errors: SystemError.
std::vector<std::string> list_interfaces();

}  // namespace ddp::launcher
