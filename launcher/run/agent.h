// The launcher on one node, as a story: round after round it starts the workers, watches them, and
// ends all of them when one fails, hangs, or the user says so; then it comes to a verdict. It alone
// changes the state of a job; everything else is a source or a tool.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/net/control_socket.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/guard.h"
#include "launcher/os/post_mortem.h"
#include "launcher/os/run_lock.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/os/stop_signals.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/restart_policy.h"
#include "launcher/plan/watchdog.h"
#include "launcher/plan/worker_environment.h"
#include "launcher/run/console.h"
#include "launcher/run/store_host.h"
#include "launcher/run/verdict.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// For a run id that the user gave: to be held from before a run directory is chosen to the end.
/// Errors: SystemError, 202 when an agent holds it.
std::optional<RunLock> lock_run(const JobSpec& spec);

class Agent {
 public:
  /// Everything that can fail before the first worker fails here. `run_dir` is empty for none,
  /// `lock` null. `spec` and `lock` outlive the agent. Errors: SystemError.
  Agent(const JobSpec& spec,
        const std::filesystem::path& run_dir,
        const RunLock* lock,
        log::Level lowest);

  /// Blocks: until nothing of the job lives on this node. Errors: none; what fails after the first
  /// worker is in the verdict.
  Verdict run();

  /// For what is to be said after the job, in order with the last lines of the workers.
  Console& console() { return console_; }

 private:
  asio::awaitable<void> story();
  void prepare_cgroup();
  void begin_round(int round);
  asio::awaitable<void> watch();
  asio::awaitable<void> stop();
  asio::awaitable<void> collect_stacks();
  asio::awaitable<void> pause(const RestartDecision& decision);
  void note_signal(int signal);
  void take_signal(const SignalCame& signal);
  std::string answer(const std::string& request);
  void look_after_workers();
  void say_start();
  void say_why_stopping();
  RoundResult conclude(std::vector<std::string> leftovers);
  void say_restart(const RoundResult& round, const RestartDecision& decision);

  const JobSpec& spec_;
  RoundFacts facts_;
  ScratchDir scratch_;
  Guard guard_;  // before the writer's thread and the loop: it is to be small
  JobCgroup cgroup_;
  const RunLock* const lock_;  // may be null
  FileWriter writer_;
  Console console_;
  asio::io_context io_{1};
  Inbox<Event> inbox_{io_};
  StopSignals signals_;
  StoreHost store_;
  ControlSocket control_;
  const std::vector<pid_t> strangers_;   // children from before we were ddp-launch
  std::unique_ptr<WorkerGroup> group_;   // of this round
  std::optional<Watchdog> watchdog_;     // of this round
  Baseline baseline_;                    // of this round
  std::optional<SignalCame> press_;      // the newest signal that stops the job, whenever it came
  std::optional<SignalCame> user_stop_;  // the one that did
  std::optional<Finding> hang_;
  Verdict verdict_;
};

}  // namespace ddp::launcher
