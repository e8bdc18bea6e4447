// A scope guard that blocks stop signals while a thread is started, because a thread inherits the
// signal mask (pthread_sigmask(3)). So only the thread that trains handles them. Signals of
// crashes, and SIGUSR2 (prints stacks), stay unblocked.
#pragma once

#include <csignal>

namespace ddp::worker {

class StopSignalsBlocked {
 public:
  StopSignalsBlocked() {
    sigset_t mask;
    ::sigfillset(&mask);
    for (const int own : {SIGUSR2, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
      ::sigdelset(&mask, own);
    ::pthread_sigmask(SIG_SETMASK, &mask, &before_);
  }
  StopSignalsBlocked(const StopSignalsBlocked&) = delete;
  StopSignalsBlocked& operator=(const StopSignalsBlocked&) = delete;
  ~StopSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace ddp::worker
