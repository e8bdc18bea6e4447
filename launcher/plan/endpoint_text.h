// An address with its port, as people and programs read it. Trap: an IPv6 address has colons of its
// own, so it stands in brackets.
#pragma once

#include <string>

namespace ddp::launcher {

/// "127.0.0.1:29500", "[::1]:29500", "node0:29500".
std::string endpoint_text(const std::string& address, int port);

}  // namespace ddp::launcher
