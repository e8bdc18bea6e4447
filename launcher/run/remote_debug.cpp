#include "launcher/run/remote_debug.h"

#include <utility>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/node/environment.h"
#include "common/text/utf8.h"
#include "launcher/plan/start/debug_flag.h"

namespace ddp::launcher {

void RemoteDebug::choose(RoundRunner::Assignment& assignment) {
  if (!spec_.debug_elsewhere) return;
  std::vector<DebugNode> nodes;
  for (const JobNode* const node : assignment.nodes) {
    const Hello& hello = links_.table().find(node->id).hello;
    // Our own agent says that it has a debugger, as our terminal is given away.
    nodes.push_back({hello.node_rank, hello.nproc, node->link && hello.has_debugger});
  }
  const auto found = find_debugged(*spec_.debug_elsewhere, nodes);
  if (const auto* const problem = std::get_if<std::string>(&found)) throw UsageError(*problem);
  const auto& rank = std::get<DebuggedRank>(found);
  assignment.debugged_node = rank.node_rank;
  assignment.terminal.local_rank = rank.local_rank;
}

void RemoteDebug::take_terminal(RoundRunner::Assignment& assignment) {
  if (!assignment.debugged_node) return;
  terminal_ = std::make_shared<UserTerminal>(io_, writer_);
  node_id_ = assignment.nodes[static_cast<std::size_t>(*assignment.debugged_node)]->id;
  NodeZeroTerminal& given = assignment.terminal;
  given.size = UserTerminal::size();
  const std::string term = find_variable(spec_.environment, "TERM").value_or("");
  if (term.size() <= kLongestTerm && !has_control(term)) given.term = term;
  given.erase = terminal_->settings().c_cc[VERASE];
  given.is_utf8 = (terminal_->settings().c_iflag & IUTF8) != 0;
  const auto type = [this](std::string typed) { return send_typed(std::move(typed)); };
  const auto resize = [this](const TerminalSize& size) {
    if (node() != nullptr) links_.send(*node(), TerminalResized{size});
  };
  UserTerminal::listen(terminal_, type, resize);
}

/// Suspends: until the worker has room for more, or give_back(); the end of the terminal (nothing
/// typed) has no other answer.
asio::awaitable<void> RemoteDebug::send_typed(std::string typed) {
  if (node() == nullptr) co_return;
  links_.send(*node(), TerminalInput{std::move(typed)});
  room_at_worker_.expires_at(kNoDeadline);
  co_await room_at_worker_.async_wait(kResult);
}

void RemoteDebug::note_taken(const JobNode& node) {
  if (node.id == node_id_) room_at_worker_.cancel();
}

void RemoteDebug::note(const JobNode& node, const TerminalOutput& output) {
  if (node.id != node_id_) return;
  if (output.is_over) return asio::co_spawn(io_, finish(), rethrow);
  // The other agent waits for TerminalShown before it sends the next piece.
  if (std::exchange(is_showing_, true)) return;
  asio::co_spawn(io_, show(output.bytes), rethrow);
}

asio::awaitable<void> RemoteDebug::show(std::string bytes) {
  co_await terminal_->show(terminal_, std::move(bytes));
  is_showing_ = false;
  if (node() != nullptr) links_.send(*node(), TerminalShown());
}

asio::awaitable<void> RemoteDebug::finish() {
  if (terminal_) co_await terminal_->drain(terminal_);
  give_back();
}

void RemoteDebug::note_node_lost(int id) {
  if (id == node_id_) give_back();
}

void RemoteDebug::give_back() {
  room_at_worker_.cancel();
  if (terminal_) terminal_->give_back();
}

}  // namespace ddp::launcher
