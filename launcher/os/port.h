// What can be bound on this node: its loopback address, a free TCP port; and who holds a taken one.
#pragma once

#include <string>

namespace ddp::launcher {

/// "127.0.0.1"; where the loopback interface has IPv6 alone, "::1".
std::string loopback_address();

/// A port that was free a moment ago and that nobody holds: a worker is to listen there. The kernel
/// hands a port out again only after some thousand others, so the gap is small, but it is there.
/// Errors: SystemError.
int free_port();

/// Whether a worker could listen at `port`. Errors: SystemError, 202 when it is taken.
void require_free_port(int port);

/// "held by pid 17 (python3)", or "" when nobody listens there or its owner cannot be read.
std::string owner_of_port(int port);

}  // namespace ddp::launcher
