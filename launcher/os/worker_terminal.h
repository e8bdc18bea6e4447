// The terminal of one worker (--debug): a pseudo-terminal, which the worker has as its own. So a
// debugger has line editing, the terminal's size, and Ctrl-C, which does not reach us. What passes
// through it is shown on, and typed at, the user's terminal: ours (os/user_terminal), or that of
// node 0.
#pragma once

#include <termios.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/descriptor.h"
#include "common/progress/terminal.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {

class WorkerTerminal {
 public:
  /// Shows a piece of output. Suspends: until there is room for the next one. Trap: not a coroutine
  /// itself, it returns one that owns what it uses.
  using Show = std::function<asio::awaitable<void>(std::string)>;

  /// Errors: SystemError.
  explicit WorkerTerminal(asio::io_context& io);

  /// The worker's stdin, stdout and stderr, until close_worker_end().
  [[nodiscard]] int worker_end() const { return worker_end_.fd(); }
  void close_worker_end() { worker_end_ = Descriptor(); }

  /// Before the worker starts: the settings of the user's terminal, all or those that are known.
  void set_settings(const termios& settings);
  void set_editing(int erase, bool is_utf8);
  /// The kernel tells the worker by SIGWINCH.
  void resize(const TerminalSize& size);

  /// Passes on what the worker's processes print. Suspends: until none has this terminal open, or
  /// close().
  asio::awaitable<void> pump(std::shared_ptr<WorkerTerminal> itself, Show show);
  /// Gives the worker what was typed. A worker that does not read loses what is typed beyond
  /// kMostTyped bytes.
  static void type(const std::shared_ptr<WorkerTerminal>& terminal, std::string_view typed);
  /// Suspends: while much of what was typed is not read, until close().
  asio::awaitable<void> wait_for_room(std::shared_ptr<WorkerTerminal> itself);

  /// For the worker this is the end of a connection: SIGHUP.
  void close();

  /// Whether close() was not called.
  [[nodiscard]] bool is_open() const { return our_end_.is_open(); }
  /// The last lines that were shown, without control sequences.
  [[nodiscard]] std::vector<std::string> last_lines() const;

  static constexpr std::size_t kMostTyped = 1 << 20;

 private:
  asio::awaitable<void> write_typed(std::shared_ptr<WorkerTerminal> itself);

  Descriptor worker_end_;
  asio::posix::stream_descriptor our_end_;
  std::string shown_;  // the newest of it
  std::string typed_;  // not yet taken by the worker
  bool is_writing_ = false;
};

}  // namespace ddp::launcher
