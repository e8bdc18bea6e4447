// Early word of a worker's death. The kernel tells the parent only after it has freed what the
// process had: 0.1 s for each GiB in pages of 4 KiB, and what the driver of its GPUs takes. Until
// then its peers would wait for it in their collectives. The alive lock of its progress page tells
// at once.
// A word of it only says that something has happened: the callback asks the kernel what it is
// (read_process_state()).
// Traps: one thread waits for all words (futex_waitv(2), Linux 5.16; without it there is no early
// word). It must never fork, and takes no signal. The page stays mapped until forget().
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "launcher/os/asio.h"

namespace ddp::launcher {

class DeathWatch {
 public:
  using Word = std::atomic<std::uint32_t>;
  static constexpr std::size_t kMostWords = 127;  // that one thread can wait for, beside its own

  /// `callback` is called in the loop when a watched word has changed, until close().
  DeathWatch(asio::io_context& io, std::function<void()> callback);
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;
  /// Calls close().
  ~DeathWatch();

  /// Watches the word of an alive lock until it changes. No effect if it is watched already, if the
  /// main thread of `pid` does not hold the lock, or beyond kMostWords.
  void watch(Word& word, pid_t pid);
  /// Call before the word's page is unmapped.
  void forget(const Word& word);
  void close();

 private:
  struct Watched {
    Word* word = nullptr;
    std::uint32_t value = 0;  // as long as the holder lives
  };

  void start_thread();
  void listen();
  void run();
  [[nodiscard]] bool drop_changed();
  void wake_thread();

  std::function<void()> callback_;
  asio::posix::stream_descriptor bell_;  // the thread writes, the loop reads
  std::mutex mutex_;                     // of the members below
  std::vector<Watched> watched_;
  bool is_closed_ = false;
  std::atomic<std::uint32_t> changes_{0};  // of the members above; wakes the thread
  bool has_failed_ = false;                // the loop's own: no thread could be started
  std::thread thread_;
};

}  // namespace ddp::launcher
