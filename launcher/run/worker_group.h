// The workers of one node. They start together when a round begins, are watched, and end together
// when it ends. Only a survivor lives on: it stays in the group and gets a place in the next round.
// Promises: the destructor kills and reaps without suspending, so that no exception leaves an
// orphan. After end() and sweep() every worker has its ending; sweep() names those that could not
// be killed.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/owned_dir.h"
#include "common/node/identity.h"
#include "launcher/os/cgroup.h"
#include "launcher/os/log_mux.h"
#include "launcher/os/process.h"
#include "launcher/os/rank_template.h"
#include "launcher/plan/round/escalation.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/log_layout.h"
#include "launcher/plan/start/placement.h"
#include "launcher/plan/start/worker_environment.h"
#include "launcher/run/agent_events.h"
#include "launcher/run/agent_parts.h"
#include "launcher/run/debug_terminal.h"
#include "launcher/run/leftovers.h"
#include "launcher/run/orphans.h"
#include "launcher/run/worker.h"

namespace ddp::launcher {

class WorkerGroup {
 public:
  /// All arguments outlive the group. `earlier_children`: children from before this process became
  /// ddp-launch (a shell's exec), which are not ours to kill.
  WorkerGroup(const AgentParts& parts,
              const RoundFacts& facts,
              Leftovers& leftovers,
              DebugTerminal& terminal,
              const std::vector<pid_t>& earlier_children);
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;
  /// Calls end_now().
  ~WorkerGroup();

  /// Starts one worker per placement. A survivor is not started; it gets its new placement. Files
  /// are in `directory`, which may be null, and in the agent's scratch directory; a survivor keeps
  /// its files. Errors: SystemError; workers started before it are still alive (end_now() or the
  /// destructor ends them).
  void start(const std::vector<Placement>& placements,
             const std::shared_ptr<const OwnedDir>& directory);

  /// Every worker started from now on is created in `cgroup`, which outlives the group.
  void use_cgroup(const JobCgroup& cgroup) { cgroup_ = &cgroup; }

  /// Every worker started from now on is a copy of `source`, as long as that can be copied; it
  /// outlives the group. Null: none is a copy.
  void use_template(RankTemplate* source) {
    template_ = source;
    orphans_.use_template(source);
  }

  /// How the worker of a placement is started. Its streams, lock and cgroup are not set: only a
  /// start opens them. Nor are its error file and its page, unless they are given.
  [[nodiscard]] ProcessSpec plan_process(const Placement& placement,
                                         const std::string& error_file = {},
                                         int page_fd = -1) const;

  /// Takes an event: keeps the ending of a worker and reaps it; reaps an adopted orphan. Returns
  /// the worker whose ending it brings; null: none.
  const Worker* note(const AgentEvent& event);

  /// Finds workers that have failed although the kernel does not tell yet, and watches the alive
  /// locks of the others. Their WorkerDying comes by the inbox.
  void look_for_deaths();

  /// Keeps workers that wait for the next round as survivors. Suspends: until all that can wait do
  /// so, at most SurvivorWait::kLongest; less if a stop request or a SIGKILL comes.
  asio::awaitable<void> settle();

  /// From now on no worker is a survivor.
  void give_up_survivors();

  /// Ends all workers but the survivors. `escalation` gives the signals and their times. Each
  /// worker finds the reason on its page, and gets the first signal, and a SIGCONT in case it is
  /// stopped. At the end each process group gets SIGKILL. Suspends: until all are reaped, at most
  /// the grace + kKillWait. Errors: none; alive() counts those that could not be killed.
  asio::awaitable<void> end(StopReason reason, Escalation escalation);

  /// Kills the processes that the workers left behind, whatever their session, and reaps adopted
  /// orphans. Processes that --keep-daemons names are left alone. Suspends: at most kKillWait.
  /// Errors: none; the result names processes that could not be killed.
  [[nodiscard]] asio::awaitable<std::vector<std::string>> sweep();

  /// Counts workers that could not be killed as ended by our SIGKILL.
  void note_unkilled();

  /// Reads the last lines of all streams, and prints which streams are cut off. Suspends: until the
  /// streams end, at most OutputDrain::kLongest, as a process that is not ours to kill may hold one
  /// open. Also while the writer is behind, but at most FileWriter::kStallWait for a file that does
  /// not move.
  asio::awaitable<void> drain();

  /// The last resort: kills and reaps all that was started, without suspending. Blocks: a second
  /// for each worker that does not go away.
  void end_now();

  /// Writes on every worker's page why it is to end. External programs do not read it.
  void set_stop_reason(StopReason reason);

  /// SIGCONT to every worker.
  void wake();

  /// Sends `signal` to the workers that have a handler for it. Returns their number.
  std::size_t forward(int signal);

  /// Sets our children that are not workers and must not be reaped as orphans.
  void set_helpers(std::vector<pid_t> helpers) { orphans_.set_helpers(std::move(helpers)); }

  [[nodiscard]] std::size_t alive() const { return alive_; }
  [[nodiscard]] std::size_t dying() const;      // counted in alive(); how they ended is known
  [[nodiscard]] std::size_t survivors() const;  // counted in alive()
  [[nodiscard]] Clock::time_point began_at() const { return begin_; }
  /// Whether a worker's page says that it writes a checkpoint when asked to stop.
  [[nodiscard]] bool saves_on_stop() const;
  [[nodiscard]] const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }

  static constexpr std::chrono::seconds kKillWait = Escalation::kKillWait;

 private:
  void take_over(Worker& worker, const Placement& placement);
  void start_one(const Placement& placement, const std::shared_ptr<const OwnedDir>& directory);
  LogFile prepare_log_file(const std::shared_ptr<const OwnedDir>& directory,
                           const std::filesystem::path& file);
  std::unique_ptr<LogStream> open_stream(const Worker& worker,
                                         const std::shared_ptr<const OwnedDir>& directory,
                                         const WorkerFiles& files,
                                         WorkerStream stream);
  std::unique_ptr<Process> start_process(const ProcessSpec& spec, bool may_copy_template);
  void set_prefixes(const Worker& worker);
  asio::awaitable<void> wait_for_exit(std::size_t index);
  asio::awaitable<void> read_output(LogStream& stream);
  const Worker* note_exit(const WorkerExited& exit);
  const Worker* note_dying(const WorkerDying& dying);
  [[nodiscard]] std::size_t running() const { return alive_ - survivors(); }
  std::size_t keep_survivors();  // returns how many workers may still begin to wait
  std::size_t kill_processes_of_agent();
  void signal_all(int signal);
  void kill_all_in_cgroup() const;
  void close_stream(const Worker& worker, LogStream& stream, const char* name);

  const AgentParts& parts_;
  const RoundFacts& facts_;
  Leftovers& leftovers_;
  DebugTerminal& terminal_;
  LogMux mux_;  // before the workers, whose streams use it
  const std::string host_ = host_name();
  bool has_printed_problem_ = false;  // with directories; printed once
  // While workers are started. Owners: this, and the writer until it has opened the files.
  std::map<std::filesystem::path, std::shared_ptr<const OwnedDir>> directories_;
  const std::string marker_;  // DDP_AGENT_ID=..., marks our processes
  const std::vector<pid_t>& earlier_children_;
  Clock::time_point begin_ = Clock::now();  // of the round
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t alive_ = 0;
  std::optional<Clock::time_point> kill_deadline_;  // since the first SIGKILL
  const JobCgroup* cgroup_ = nullptr;
  RankTemplate* template_ = nullptr;
  Orphans orphans_;
};

}  // namespace ddp::launcher
