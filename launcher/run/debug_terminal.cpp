#include "launcher/run/debug_terminal.h"

#include <boost/asio/post.hpp>
#include <utility>
#include <variant>

namespace ddp::launcher {

void DebugTerminal::open(ProcessSpec& process, const std::optional<NodeZeroTerminal>& node_zeros) {
  // Both or none: only a terminal that is pumped ever ends.
  const auto terminal = std::make_shared<WorkerTerminal>(parts_.io);
  if (!node_zeros) user_ = std::make_shared<UserTerminal>(parts_.io, parts_.writer);
  terminal_ = terminal;
  is_open_ = true;
  process.stdin_fd = process.stdout_fd = process.stderr_fd = terminal->worker_end();
  process.takes_terminal = true;
  if (node_zeros) return join_node_zero(*node_zeros);
  terminal->set_settings(user_->settings());
  terminal->resize(UserTerminal::size());
  const auto show = [user = user_](std::string piece) {
    return user->show(user, std::move(piece));
  };
  const auto type = [terminal](const std::string& typed) {
    if (typed.empty()) terminal->close();
    WorkerTerminal::type(terminal, typed);
    return terminal->wait_for_room(terminal);
  };
  const auto resize = [terminal](const TerminalSize& size) { terminal->resize(size); };
  asio::co_spawn(parts_.io, pump(show), rethrow);
  UserTerminal::listen(user_, type, resize);
}

void DebugTerminal::join_node_zero(const NodeZeroTerminal& node_zeros) {
  is_node_zeros_ = true;
  terminal_->set_editing(node_zeros.erase, node_zeros.is_utf8);
  terminal_->resize(early_size_.value_or(node_zeros.size));
  // Once the worker has started: an end of the terminal before would be a failure to start it.
  if (early_input_) asio::post(parts_.io, [this] { take(*early_input_); });
  const auto show = [this](std::string piece) { return show_on_node_zero(std::move(piece)); };
  asio::co_spawn(parts_.io, pump(show), rethrow);
}

void DebugTerminal::take(const std::string& typed) {
  if (typed.empty()) return terminal_->close();
  WorkerTerminal::type(terminal_, typed);
  asio::co_spawn(parts_.io, acknowledge(), rethrow);
}

asio::awaitable<void> DebugTerminal::acknowledge() {
  co_await terminal_->wait_for_room(terminal_);
  parts_.send_event(TerminalTaken());
}

asio::awaitable<void> DebugTerminal::pump(WorkerTerminal::Show show) {
  co_await terminal_->pump(terminal_, std::move(show));
  if (user_) co_await user_->drain(user_);
  close();
  is_open_ = false;
  if (is_node_zeros_) parts_.send_event(TerminalOutput{.bytes = {}, .is_over = true});
  parts_.inbox.push(OutputEnded());
}

/// Suspends: until node 0 has room for the next piece, or close(). A node 0 that is lost ends the
/// round, and so this.
asio::awaitable<void> DebugTerminal::show_on_node_zero(std::string piece) {
  parts_.send_event(TerminalOutput{std::move(piece), false});
  if (!terminal_->is_open()) co_return;
  room_on_node_zero_.expires_at(kNoDeadline);
  co_await room_on_node_zero_.async_wait(kResult);
}

void DebugTerminal::close() {
  if (terminal_) terminal_->close();
  room_on_node_zero_.cancel();
  if (user_) user_->give_back();
}

void DebugTerminal::note(const NodeCommand& command) {
  if (terminal_ && !is_node_zeros_) return;  // the worker has ours
  if (std::holds_alternative<TerminalShown>(command)) room_on_node_zero_.cancel();
  if (const auto* const input = std::get_if<TerminalInput>(&command)) {
    if (terminal_) return take(input->bytes);
    early_input_ = input->bytes;  // one: the next waits for our answer
  }
  if (const auto* const resized = std::get_if<TerminalResized>(&command)) {
    early_size_ = resized->size;
    if (terminal_) terminal_->resize(resized->size);
  }
}

}  // namespace ddp::launcher
