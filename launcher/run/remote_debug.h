// Node 0's terminal, which a worker of another node has (--debug on node 0). What is typed and
// shown passes over the control link to the agent of that node, which has the worker's own terminal
// (run/debug_terminal).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/user_terminal.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/node_links.h"
#include "launcher/run/round_runner.h"

namespace ddp::launcher {

class RemoteDebug {
 public:
  /// All arguments outlive it.
  RemoteDebug(asio::io_context& io, FileWriter& writer, const JobSpec& spec, NodeLinks& links)
      : io_(io), writer_(writer), spec_(spec), links_(links), room_at_worker_(io) {}

  /// Writes into the assignment which worker has the terminal. Errors: UsageError when there is no
  /// such worker.
  void choose(RoundRunner::Assignment& assignment);
  /// Takes the terminal from the user, if choose() has found a worker. Errors: SystemError.
  void take_terminal(RoundRunner::Assignment& assignment);
  /// Shows what comes from that worker; ignores other nodes.
  void note(const JobNode& node, const TerminalOutput& output);
  void note_taken(const JobNode& node);
  void note_node_lost(int id);
  /// The user has the terminal again. finish() shows first what is queued; it suspends: at most
  /// UserTerminal::kDrainWait.
  void give_back();
  asio::awaitable<void> finish();

 private:
  asio::awaitable<void> send_typed(std::string typed);
  asio::awaitable<void> show(std::string bytes);
  [[nodiscard]] const JobNode* node() const { return links_.find(*node_id_); }  // null: it is gone

  asio::io_context& io_;
  FileWriter& writer_;
  const JobSpec& spec_;
  NodeLinks& links_;
  std::shared_ptr<UserTerminal> terminal_;  // owners: this, and the coroutines that use it
  std::optional<int> node_id_;              // of the worker's node
  bool is_showing_ = false;
  asio::steady_timer room_at_worker_;  // cancelled when there is some
};

}  // namespace ddp::launcher
