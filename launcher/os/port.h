// TCP ports of this node: a free one, and who holds a taken one.
#pragma once

#include <string>

namespace ddp::launcher {

/// A port that was free a moment ago and that nobody holds: a worker is to listen there. The kernel
/// hands a port out again only after some thousand others, so the gap is small, but it is there.
/// Errors: SystemError.
int free_port();

/// Whether a worker could listen at `port`. Errors: SystemError, 202 when it is taken.
void require_free_port(int port);

/// "held by pid 17 (python3)", or "" when nobody listens there or its owner cannot be read.
std::string owner_of_port(int port);

}  // namespace ddp::launcher
