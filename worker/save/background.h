// One thread that does pieces of work in their order, while whoever asks for them goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace ddp::worker {

/// Its end waits until all that was begun is done.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// `work` lets no exception out. The first call starts the thread, on which no stop signal is
  /// handled. Errors: SystemError when there can be no thread.
  void start(std::function<void()> work);

  /// Blocks: until all that was begun is done.
  void wait();

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // The first one is being done. As many as were begun: who begins much waits for it.
  std::deque<std::function<void()>> work_;
  std::jthread thread_;  // ends first
};

}  // namespace ddp::worker
