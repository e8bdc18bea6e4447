#include "worker/save/background.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace ddp::worker {

Background::~Background() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
  if (thread_.joinable()) return;
  // The thread inherits the mask: a signal finds the thread that trains.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty(); });
}

void Background::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !work_.empty() || is_ending_; });
    if (work_.empty()) return;
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
