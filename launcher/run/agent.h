// The launcher on one node, as a story: round after round it starts the workers when node 0 says
// so, tells node 0 how they fare, ends all of them when told to, or when node 0 is gone, and at
// last takes the verdict. It alone changes the state of this node's workers. On node 0 the
// coordinator runs beside it and gives the commands.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/net/control_link.h"
#include "launcher/net/control_socket.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/guard.h"
#include "launcher/os/post_mortem.h"
#include "launcher/os/run_lock.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/os/service_manager.h"
#include "launcher/os/stop_signals.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/messages.h"
#include "launcher/plan/node_commands.h"
#include "launcher/plan/worker_environment.h"
#include "launcher/run/console.h"
#include "launcher/run/coordinator.h"
#include "launcher/run/rendezvous.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// For a run id that the user gave: to be held from before a run directory is chosen to the end.
/// `environment` is our own; `place` is that of make_scratch_place(). Errors: SystemError, 202 when
/// an agent holds it.
std::optional<RunLock> lock_run(const JobSpec& spec,
                                const Environment& environment,
                                const std::filesystem::path& place);

class Agent {
 public:
  using ChooseRunDir = std::function<std::filesystem::path(int world_size)>;

  /// Everything that can fail before the first worker fails here. `choose_run_dir` is asked on node
  /// 0 only; `place` is that of make_scratch_place(); `lock` may be null. All arguments outlive the
  /// agent. Errors: SystemError.
  Agent(asio::io_context& io,
        const JobSpec& spec,
        const Rendezvous& rendezvous,
        const ChooseRunDir& choose_run_dir,
        const std::filesystem::path& place,
        const RunLock* lock,
        log::Level lowest);

  /// Blocks: until nothing of the job lives on this node. Errors: none; what fails after the first
  /// worker is in the verdict.
  JobEnd run();

  /// Where the record of the job belongs: of this node, in torchrun's layout; null: none.
  [[nodiscard]] const OwnedDir* log_dir() const { return log_dir_.get(); }

  /// For what is to be said after the job, in order with the last lines of the workers.
  Console& console() { return console_; }

 private:
  asio::awaitable<void> run_rounds();
  asio::awaitable<void> keep_heartbeat();
  asio::awaitable<void> wait_for_command();
  asio::awaitable<void> run_round();
  asio::awaitable<void> watch();
  asio::awaitable<void> stop();
  asio::awaitable<void> clear_up_after_kept();
  asio::awaitable<void> end_kept();
  void prepare_cgroup();
  void begin_round(const StartRound& start);
  void open_run_dir();
  void start_workers(const StartRound& start);
  bool take_command(const NodeCommand& command);
  void tell(const NodeEvent& event);
  void tell_exit(const WorkerExited& exit);
  void reply_to_heartbeat(const Heartbeat& heartbeat);
  std::string silence_of_node_zero();
  void lose_node_zero(const std::string& how, int signal);
  void leave_unheard();
  void end_alone(StopRound stop, const JobEnd& end);
  [[nodiscard]] bool has_slept() const;
  bool was_fenced();
  void listen_to_node_zero();
  void forward(int signal);
  void note_signal(int signal);
  void press(const SignalCame& came);
  std::string answer(const std::string& request);
  void say_start();
  void say_place(const StartRound& start);
  void say_why_stopping();

  asio::io_context& io_;
  const JobSpec& spec_;
  const std::shared_ptr<ControlLink> link_;  // to node 0; null: we are node 0
  const std::string zero_host_;              // node 0's name
  // Owners of both: this, and whoever opens files in them.
  const std::shared_ptr<const OwnedDir> log_dir_;  // null: none
  std::shared_ptr<const OwnedDir> run_dir_;        // once files of ours are to lie in it
  RoundFacts facts_;
  ScratchDir scratch_;
  Guard guard_;  // before the writer's thread and the loop: it is to be small
  JobCgroup cgroup_;
  const RunLock* const lock_;  // may be null
  FileWriter writer_;
  Console console_;
  Inbox<Event> inbox_;
  StopSignals signals_;
  ServiceManager service_;
  std::unique_ptr<Coordinator> coordinator_;  // null: we are not node 0
  ControlSocket control_;
  const std::vector<pid_t> earlier_children_;  // children from before we were ddp-launch
  std::unique_ptr<WorkerGroup> group_;         // of this round
  bool has_kept_ = false;                      // the last round has left workers for the next one
  int world_size_ = 0;
  Baseline baseline_;               // of this round
  std::vector<EndedWorker> ended_;  // workers of the last one
  asio::steady_timer heartbeat_timer_;
  Clock::time_point last_heartbeat_ = Clock::now();
  std::chrono::nanoseconds awake_at_ = boot_time();  // then too, by the clock that never stands
  bool is_over_ = false;
  bool keeps_error_files_ = false;

  NodeCommands commands_;
  std::optional<SignalCame> press_;  // the newest signal that stops the job, whenever it came
};

}  // namespace ddp::launcher
