#include "worker/save/background.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

#include "common/error.h"

namespace ddp::worker {
namespace {

/// As long as it lives a new thread inherits a mask: stop signals find the thread that trains. What
/// a thread is asked for itself, its stack, and what it does to itself stays its own.
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

}  // namespace

void Background::start(std::function<void()> work) {
  if (!thread_.joinable()) try {
      const StopsMasked masked;
      thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    } catch (const std::system_error& error) {
      throw SystemError(
          system_message("start a thread", "that writes checkpoints", error.code().value()));
    }
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty(); });
}

void Background::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (!changed_.wait(lock, stop, [this] { return !work_.empty(); })) return;
    // A deque keeps its elements where they are while others come.
    const std::function<void()>& work = work_.front();
    lock.unlock();
    work();
    lock.lock();
    work_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace ddp::worker
