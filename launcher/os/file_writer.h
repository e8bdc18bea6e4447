// The launcher's second thread, the only one: it writes log files and the console, so that a
// stalled disk or a terminal that was stopped by Ctrl-S never stops the loop that watches workers.
// Promises: bytes of one target arrive in order; a target that fails is reported once and then
// skipped; the queue is bounded by its users, who look at queued_bytes() before they read more; a
// target that takes nothing any more never holds the end of the job. On a pipe or a terminal one
// write() is at most PIPE_BUF bytes, whole lines where they fit, so nobody's line comes between
// them (pipe(7)). Trap: this thread must never fork, and all signals are blocked in it, so that
// they reach the loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

namespace ddp::launcher {

class FileWriter {
 public:
  using Target = std::size_t;
  static constexpr Target kStdout = 0;
  static constexpr Target kStderr = 1;
  /// A target that has taken no byte for so long, at the end of a job, is given up.
  static constexpr std::chrono::seconds kStallWait{3};

  FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  /// Blocks: until all is written, as long as something moves; kStallWait for a target that takes
  /// nothing, at most for both console streams and the disk.
  ~FileWriter();

  /// A new file, opened by the writer's thread when its first bytes come. Errors: none here, one
  /// line on stderr.
  Target open(std::filesystem::path path);

  void write(Target target, std::string bytes);

  /// For how long nothing has moved although something is queued.
  [[nodiscard]] std::chrono::nanoseconds stalled_for() const;

  /// Gives up the target that is being written to, with one line, and goes on with the others; a
  /// log file stands for all of them, as they are on one disk. Nothing when nothing is being
  /// written.
  void leave_stuck();

  [[nodiscard]] std::size_t queued_bytes() const;

 private:
  struct Shared;
  void start();

  std::shared_ptr<Shared> shared_;  // with its thread, which may be left behind in a write()
  std::thread thread_;
};

}  // namespace ddp::launcher
