// stdin as the connection to anyone who has started this agent from another host: a token comes
// over it, and the job is stopped when it ends. An agent that ssh has started would otherwise
// outlive its connection: sshd sends no signal when there is no terminal. Promises: from the moment
// the token is there, in every phase of the program, anything that comes over the connection, and
// its end, is a SIGTERM to this process: the kernel sends it (fcntl(2), O_ASYNC). Workers get no
// part of it: their stdin is empty.
#pragma once

#include <string_view>

#include "launcher/plan/secret.h"

namespace ddp::launcher {

/// Said on stderr once the token is there: an exit code from before it is not an agent's.
inline constexpr std::string_view kConnected = "ddp-launch: connected";

/// Takes the first line of stdin, without its newline; /dev/null is stdin from then on.
/// Blocks: until that line has come. Errors: UsageError when stdin ends before; SystemError.
Secret take_parent_pipe();

}  // namespace ddp::launcher
