// Our terminal, lent to one worker (--debug): the worker has a pseudo-terminal as its own, and what
// is typed and shown passes between the two. So a debugger has line editing, the terminal's size,
// and Ctrl-C, which does not reach us.
// Promises: our terminal's settings come back when no process has the worker's terminal open any
// more, or in the destructor. Trap: the settings of a terminal outlive a process that is killed.
#pragma once

#include <termios.h>

#include <memory>
#include <string>
#include <vector>

#include "common/files/descriptor.h"
#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"

namespace ddp::launcher {

class WorkerTerminal {
 public:
  /// Makes our terminal raw. Precondition: stdin and stdout are one. `writer` outlives it. Errors:
  /// SystemError.
  WorkerTerminal(asio::io_context& io, FileWriter& writer);
  ~WorkerTerminal();

  /// The worker's stdin, stdout and stderr, until close_worker_end().
  [[nodiscard]] int worker_end() const { return worker_end_.fd(); }
  void close_worker_end() { worker_end_ = Descriptor(); }

  /// Shows what the worker's processes print. Suspends: until none has its terminal open, or
  /// give_back(). Then ours has its settings back.
  asio::awaitable<void> show();
  /// Passes on what is typed, and the terminal's size when it changes. Suspend: as show().
  asio::awaitable<void> pass_on_typing(std::shared_ptr<WorkerTerminal> itself);
  asio::awaitable<void> resize(std::shared_ptr<WorkerTerminal> itself);

  /// Gives our terminal its settings back, and ends the three.
  void give_back();

  /// Whether show() has returned.
  [[nodiscard]] bool is_over() const { return is_over_; }
  /// The last lines that were shown, without control sequences.
  [[nodiscard]] std::vector<std::string> last_lines() const;

 private:
  void copy_size();

  FileWriter& writer_;
  termios settings_{};  // ours, before
  bool is_raw_ = false;
  bool is_over_ = false;
  Descriptor worker_end_;
  asio::posix::stream_descriptor our_end_;
  asio::posix::stream_descriptor keyboard_;
  asio::signal_set resized_;
  std::string shown_;  // the newest of it
};

}  // namespace ddp::launcher
