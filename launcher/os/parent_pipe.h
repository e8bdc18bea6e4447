// stdin as the connection to the starter of this agent on another host: the token comes over it,
// and its end stops the job. Otherwise an agent started by ssh would outlive its connection, as
// sshd sends no signal without a terminal. Promises: after the token, in every phase of the
// program, any byte on the connection, and its end, is a SIGTERM to this process, sent by the
// kernel (fcntl(2), O_ASYNC). Workers do not get the connection: their stdin is empty.
#pragma once

#include <string_view>

#include "launcher/plan/secret.h"

namespace ddp::launcher {

/// Printed on stderr after the token was read. An exit code without this line is not an agent's.
inline constexpr std::string_view kConnected = "ddp-launch: connected";

/// Reads the first line of stdin, without its newline; from then on stdin is /dev/null. Blocks:
/// until that line has come. Errors: UsageError when stdin ends before it; SystemError.
Secret take_parent_pipe();

}  // namespace ddp::launcher
