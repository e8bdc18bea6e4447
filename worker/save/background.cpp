#include "worker/save/background.h"

#include <system_error>
#include <utility>

#include "common/error.h"
#include "worker/save/stop_signals_blocked.h"

namespace ddp::worker {

void Background::start(std::function<void()> work) {
  if (!thread_.joinable()) try {
      const StopSignalsBlocked blocked;
      thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    } catch (const std::system_error& error) {
      throw SystemError(system_message("start a thread", work_for_, error.code().value()));
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
    // The reference stays valid: a deque does not move elements when others are added.
    const std::function<void()>& work = work_.front();
    lock.unlock();
    work();
    lock.lock();
    work_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace ddp::worker
