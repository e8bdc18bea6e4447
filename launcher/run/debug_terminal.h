// The terminal of the worker of this node that has one (--debug), joined to ours or to that of
// node 0, with which it exchanges messages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/os/process.h"
#include "launcher/os/user_terminal.h"
#include "launcher/os/worker_terminal.h"
#include "launcher/plan/round/messages.h"
#include "launcher/run/agent_parts.h"

namespace ddp::launcher {

class DebugTerminal {
 public:
  /// `parts` outlive it.
  explicit DebugTerminal(const AgentParts& parts) : parts_(parts), room_on_node_zero_(parts.io) {}

  /// Gives the worker that is to be started a terminal. `node_zeros`: it has that one; nothing: it
  /// has ours. Errors: SystemError.
  void open(ProcessSpec& process, const std::optional<NodeZeroTerminal>& node_zeros);
  /// The worker has ended, or could not start. Until then we have its terminal open, too, so that
  /// it stays if the worker closes it.
  void close_worker_end() {
    if (terminal_) terminal_->close_worker_end();
  }
  /// Our terminal has its settings back. For a worker that still lives this is SIGHUP.
  void close();

  /// Whether something may still be shown.
  [[nodiscard]] bool is_open() const { return is_open_; }
  /// The last lines that were shown. Precondition: open() was called.
  [[nodiscard]] std::vector<std::string> last_lines() const { return terminal_->last_lines(); }

  /// Takes a command of node 0 about its terminal. What comes before open() waits for it.
  void note(const NodeCommand& command);

 private:
  void join_node_zero(const NodeZeroTerminal& node_zeros);
  void take(const std::string& typed);
  asio::awaitable<void> acknowledge();
  asio::awaitable<void> pump(WorkerTerminal::Show show);
  asio::awaitable<void> show_on_node_zero(std::string piece);

  const AgentParts& parts_;
  bool is_node_zeros_ = false;
  bool is_open_ = false;
  // Owners: this, and the coroutines that use them.
  std::shared_ptr<WorkerTerminal> terminal_;
  std::shared_ptr<UserTerminal> user_;      // null: none, or it is node 0's
  asio::steady_timer room_on_node_zero_;    // cancelled when there is some
  std::optional<std::string> early_input_;  // before open()
  std::optional<TerminalSize> early_size_;
};

}  // namespace ddp::launcher
