// A scope guard that blocks all signals while a thread is started, because a thread inherits the
// signal mask (pthread_sigmask(3)). A signal to the process goes to any thread that does not block
// it (signal(7)), so another thread would take it from the loop.
#pragma once

#include <csignal>

namespace ddp::launcher {

class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace ddp::launcher
