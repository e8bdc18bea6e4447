// Prints stacks to stderr. On SIGUSR2 every thread prints its stack, and the process continues; the
// agent sends it before it ends a job that hangs. On a crash the crashing thread prints its stack,
// and the process then dies of the signal as usual.
#pragma once

namespace ddp::worker {

/// Installs the handler of SIGUSR2. Errors: SystemError. Trap: a thread that blocks all signals
/// prints nothing; the others wait for it only a moment.
void print_stacks_on_signal();

/// Installs handlers of SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT, except where a sanitizer or
/// the user's program has one. Stack overflows are only covered in the calling thread. Errors:
/// SystemError.
void print_stack_on_crash();

}  // namespace ddp::worker
