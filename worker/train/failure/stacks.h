// SIGUSR2: every thread of this process prints its stack to stderr, and the process goes on. The
// agent asks for it before it ends a job that hangs. A crash: the thread in which it happens prints
// its stack, and the process dies of the signal as it would have without that.
#pragma once

namespace ddp::worker {

/// Installs the handler. Errors: SystemError. Trap: a thread that blocks all signals prints
/// nothing; the others wait a moment for it and go on.
void print_stacks_on_signal();

/// For SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT, unless somebody else has a handler for them (a
/// sanitizer, a program's own). An overflow of the stack is covered in the calling thread alone.
/// Errors: SystemError.
void print_stack_on_crash();

}  // namespace ddp::worker
