// One thread that does pieces of work in their order, while anyone who asks for them goes on.
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

/// Its end waits until all that was begun is done.
class Background {
 public:
  /// `work_for`: what the thread is there for, as "that writes checkpoints".
  explicit Background(std::string work_for) : work_for_(std::move(work_for)) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// `work` lets no exception out. The first call starts the thread, on which no stop signal is
  /// handled. Errors: SystemError when there can be no thread.
  void start(std::function<void()> work);

  /// Blocks: until all that was begun is done.
  void wait();

 private:
  void run(const std::stop_token& stop);

  const std::string work_for_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // The first one is being done. As many as were begun: who begins much waits for it.
  std::deque<std::function<void()>> work_;
  std::jthread thread_;  // ends first
};

}  // namespace ddp::worker
