// The launcher on one node. In each round it starts the workers when node 0 commands it, reports
// their state to node 0, and ends all of them on command, or when node 0 is gone. At the end it
// takes the verdict. It carries events to node 0 and commands to the workers; plan/round/round
// (node 0) and plan/round/node_commands (here) decide what they mean.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/net/control_socket.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/guard.h"
#include "launcher/os/job_lock.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/os/service_notifier.h"
#include "launcher/os/stop_signals.h"
#include "launcher/plan/round/fence.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/node_commands.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"
#include "launcher/run/node_workers.h"
#include "launcher/run/node_zero.h"
#include "launcher/run/rendezvous.h"
#include "launcher/run/web_page.h"

namespace ddp::launcher {

class Coordinator;

class Agent {
 public:
  using ChooseRunDir = std::function<std::filesystem::path(int world_size)>;

  /// Does everything that can fail before a worker is started. `choose_run_dir` is called on
  /// node 0 only; `scratch_place` comes from make_scratch_place(); `lock` may be null. All
  /// arguments outlive the agent. Errors: SystemError.
  Agent(asio::io_context& io,
        const JobSpec& spec,
        Rendezvous& rendezvous,
        const ChooseRunDir& choose_run_dir,
        const std::filesystem::path& scratch_place,
        const JobLock* lock,
        log::Level lowest);

  /// Blocks: until nothing of the job lives on this node. Errors: none; a failure after the first
  /// worker is in the verdict.
  EndJob run();

  /// This node's directory for the record of the job, in torchrun's layout; null: none.
  [[nodiscard]] const OwnedDir* log_dir() const { return workers_.log_dir(); }

  /// For lines printed after the job, in order with the last lines of the workers.
  Console& console() { return console_; }

 private:
  asio::awaitable<void> run_rounds();
  asio::awaitable<void> run_round();
  asio::awaitable<void> watch_workers();
  asio::awaitable<void> check_periodically();
  void find_daemons();
  asio::awaitable<void> wait_for_command();
  void start_workers(const StartRound& start);
  bool note_command(const NodeCommand& command);
  void reply_to_heartbeat(const Heartbeat& heartbeat);
  void note_signal(int signal);
  void request_stop(int signal);
  std::string answer(const std::string& request);
  [[nodiscard]] JobView job_snapshot(Coordinator& coordinator);

  [[nodiscard]] FenceCause fence_cause() const;
  [[nodiscard]] std::optional<std::string> why_slept() const;

  asio::io_context& io_;
  const JobSpec& spec_;
  const std::shared_ptr<const OwnedDir> log_dir_;  // null: none. Owners: as of NodeWorkers
  const std::string agent_id_;
  ScratchDir scratch_;
  Guard guard_;  // forked before the writer's thread and the loop exist, so that little is copied
  FileWriter writer_;
  Console console_;
  Inbox<AgentEvent> inbox_;
  DeathWatch deaths_;  // before the workers, whose pages it watches
  StopSignals signals_;
  ServiceNotifier service_;
  ControlSocket control_;
  NodeWorkers workers_;
  NodeCommands commands_;
  std::unique_ptr<NodeZero> zero_;
  std::unique_ptr<WebPage> web_;  // node 0's; null: none
  asio::steady_timer check_timer_;
  std::chrono::nanoseconds awake_at_ = boot_time();  // last check; runs during sleep
  Clock::time_point next_daemon_look_{};
  bool is_over_ = false;
};

}  // namespace ddp::launcher
