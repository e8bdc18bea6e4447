// The user's terminal while a worker has it (--debug): raw, so that all that is typed goes to the
// worker's own terminal (os/worker_terminal), here or on another node.
// Promises: its settings come back by give_back(), or in the destructor. Trap: the settings of a
// terminal outlive a process that is killed.
#pragma once

#include <termios.h>

#include <functional>
#include <memory>
#include <string>

#include "common/progress/terminal.h"
#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"

namespace ddp::launcher {

class UserTerminal {
 public:
  /// Takes what was typed; nothing: the terminal is gone. Suspends: until there is room for more.
  /// Trap: not a coroutine itself, it returns one that owns what it uses.
  using OnTyped = std::function<asio::awaitable<void>(std::string)>;
  using OnResized = std::function<void(const TerminalSize&)>;

  /// Makes the terminal raw. Precondition: stdin and stdout are one. `writer` outlives it. Errors:
  /// SystemError.
  UserTerminal(asio::io_context& io, FileWriter& writer);
  UserTerminal(const UserTerminal&) = delete;
  UserTerminal& operator=(const UserTerminal&) = delete;
  ~UserTerminal();

  /// Begins to pass on what is typed, and the size when it changes, until give_back(). It and the
  /// callbacks live as long.
  static void listen(const std::shared_ptr<UserTerminal>& itself,
                     OnTyped on_typed,
                     OnResized on_resized);

  /// Suspends: while much of what came before waits to be shown, until give_back().
  asio::awaitable<void> show(std::shared_ptr<UserTerminal> itself, std::string piece);

  /// Call before give_back(): what was printed was meant for a raw terminal. Suspends: until all of
  /// it is shown, at most kDrainWait, or give_back().
  asio::awaitable<void> drain(std::shared_ptr<UserTerminal> itself);

  /// Gives the terminal its settings back, and ends the rest.
  void give_back();

  /// Those that it had.
  [[nodiscard]] const termios& settings() const { return settings_; }
  [[nodiscard]] static TerminalSize size();

  static constexpr std::chrono::seconds kDrainWait{2};

 private:
  asio::awaitable<void> wait_for_queue(std::size_t most, Deadline deadline);
  asio::awaitable<void> read_keyboard(std::shared_ptr<UserTerminal> itself, OnTyped on_typed);
  asio::awaitable<void> watch_size(std::shared_ptr<UserTerminal> itself, OnResized on_resized);

  FileWriter& writer_;
  termios settings_{};
  int flags_ = 0;  // of stdin, which asio makes non-blocking
  bool is_raw_ = false;
  asio::posix::stream_descriptor keyboard_;
  asio::signal_set resized_;
};

}  // namespace ddp::launcher
