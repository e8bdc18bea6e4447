// A signal mask for the start of a thread, which inherits it (pthread_sigmask(3)): signals that ask
// the process to stop go to the thread that trains, while crashes, and SIGUSR2 for stacks, go to
// each thread itself.
#pragma once

#include <csignal>

namespace ddp::worker {

/// Masks these signals while it lives. Not for a thread that a signal has to stop.
class StopsMasked {
 public:
  StopsMasked() {
    sigset_t mask;
    ::sigfillset(&mask);
    for (const int own : {SIGUSR2, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
      ::sigdelset(&mask, own);
    ::pthread_sigmask(SIG_SETMASK, &mask, &before_);
  }
  StopsMasked(const StopsMasked&) = delete;
  StopsMasked& operator=(const StopsMasked&) = delete;
  ~StopsMasked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace ddp::worker
