// The launcher's second thread, the only one: it writes log files and the console, so that a
// stalled disk or a terminal that was stopped by Ctrl-S never stops the loop that watches workers.
// Promises: bytes of one target arrive in order, one write() per block; a target that fails is
// reported once and then skipped; the queue is bounded by its users, who look at queued_bytes()
// before they read more. Trap: this thread must never fork, and all signals are blocked in it, so
// that they reach the loop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddp::launcher {

class FileWriter {
 public:
  using Target = std::size_t;
  static constexpr Target kStdout = 0;
  static constexpr Target kStderr = 1;

  FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  /// Blocks: until all is written.
  ~FileWriter();

  /// A new file, opened by the writer's thread when its first bytes come. Errors: none here, one
  /// line on stderr.
  Target open(std::filesystem::path path);

  void write(Target target, std::string bytes);

  /// Waits until everything has been written. Blocks: as long as the slowest target.
  void drain();

  [[nodiscard]] std::size_t queued_bytes() const { return queued_.load(std::memory_order_relaxed); }

 private:
  struct Output {
    std::filesystem::path path;
    int fd = -1;
    bool failed = false;
  };
  struct Block {
    Target target = 0;
    std::string bytes;
  };

  void run();
  void put(Target target, const std::string& bytes);
  void give_up(Target target, Output& output, int error);

  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable emptied_;
  std::deque<Block> blocks_;
  std::deque<Output> outputs_;  // a deque: references stay good while others are added
  bool busy_ = false;
  bool closing_ = false;
  std::atomic<std::size_t> queued_{0};
  std::thread thread_;
};

}  // namespace ddp::launcher
