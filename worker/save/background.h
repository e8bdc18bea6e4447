// One thread that does pieces of work in their order, while whoever asks for them goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ddp::worker {

class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  /// Blocks: until all that was begun is done.
  ~Background();

  /// `work` lets no exception out. The first call starts the thread; no signal is handled on it.
  void start(std::function<void()> work);

  /// Blocks: until all that was begun is done.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // the first one is being done
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace ddp::worker
