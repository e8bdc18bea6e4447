// A background thread that does pieces of work one after the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace ddp::worker {

/// Its destructor waits until all work is done.
class Background {
 public:
  /// `work_for` completes "a thread ..." in messages: "that writes checkpoints".
  explicit Background(std::string work_for) : work_for_(std::move(work_for)) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Queues `work`, which must not throw. The first call starts the thread, which blocks stop
  /// signals. Errors: SystemError when no thread can be started.
  void start(std::function<void()> work);

  /// Blocks: until all work that was started is done.
  void wait();

 private:
  void run(const std::stop_token& stop);

  const std::string work_for_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // The first one is running. There is no limit: a caller that starts much work must call wait().
  std::deque<std::function<void()>> work_;
  std::jthread thread_;  // declared last: it ends before the other members
};

}  // namespace ddp::worker
