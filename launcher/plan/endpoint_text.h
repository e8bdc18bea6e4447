// An address with its port, as people and programs read it. Trap: an IPv6 address contains colons,
// so it stands in brackets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

/// "127.0.0.1:29500", "[::1]:29500", "node0:29500".
std::string endpoint_text(const std::string& address, int port);

/// Parses a port number; 0 is valid.
std::optional<int> parse_port(std::string_view text);

/// Whether the text is an address of the family: AF_INET, or AF_INET6 without brackets and zone.
bool is_address(int family, std::string_view text);

}  // namespace ddp::launcher
