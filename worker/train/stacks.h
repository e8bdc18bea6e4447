// SIGUSR2: every thread of this process prints its stack to stderr, and the process goes on. The
// agent asks for it before it ends a job that hangs.
#pragma once

namespace ddp::worker {

/// Installs the handler. Errors: SystemError. Trap: a thread that blocks all signals prints
/// nothing; the others wait a moment for it and go on.
void print_stacks_on_signal();

}  // namespace ddp::worker
