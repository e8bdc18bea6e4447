// Addresses and ports of this node: its loopback address, a free TCP port, the owner of a taken
// port.
#pragma once

#include <string>

namespace ddp::launcher {

/// "127.0.0.1", or "::1" if the loopback interface has only IPv6.
std::string loopback_address();

/// A port that was free a moment ago, for a worker to listen at. Another program may take it first,
/// but that is unlikely, as the kernel reuses a port only after some thousand others. Errors:
/// SystemError.
int free_port();

/// Checks that a worker could listen at `port`. Errors: SystemError, 202 when it is taken.
void require_free_port(int port);

/// "held by pid 17 (python3)"; empty: not taken, or its owner is not readable.
std::string owner_of_port(int port);

}  // namespace ddp::launcher
