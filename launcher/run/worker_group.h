// The workers of one node in one round. They start together, are watched, and end together. A
// survivor waits for the next round: it stays alive, and in this group.
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
#include "common/progress/progress_page.h"
#include "launcher/os/cgroup.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/guard.h"
#include "launcher/os/log_mux.h"
#include "launcher/os/process.h"
#include "launcher/plan/round/ending.h"
#include "launcher/plan/round/escalation.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/log_layout.h"
#include "launcher/plan/start/placement.h"
#include "launcher/plan/start/session.h"
#include "launcher/plan/start/worker_environment.h"
#include "launcher/run/agent_events.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

/// One worker, and what is left of it for the report when it has ended.
struct Worker {
  Placement placement;
  std::filesystem::path error_file;  // empty: none
  MappedProgressPage page = MappedProgressPage::create();
  std::unique_ptr<LogStream> output;
  std::unique_ptr<LogStream> errors;
  std::unique_ptr<Process> process;  // declared last: gone before the pipes it writes to
  pid_t pid = 0;                     // for the report: also after the reaping
  Session session;                   // that it leads
  bool stop_sent = false;
  bool kill_sent = false;
  bool abort_sent = false;
  bool is_survivor = false;             // it lives, and waits for the next round
  std::optional<Stacks> py_spy_stacks;  // its stacks, as another program saw them
  std::optional<Ending> ending;
  Clock::time_point started_at;
  std::chrono::system_clock::time_point ended_at;  // shown, never compared
};

/// "rank 3 (pid 17)".
std::string name_worker(const Worker& worker);

class WorkerGroup {
 public:
  /// All arguments outlive the group. `earlier_children` are children from before we were
  /// ddp-launch (a shell's exec): not ours to kill.
  WorkerGroup(asio::io_context& io,
              Inbox<AgentEvent>& inbox,
              Guard& guard,
              FileWriter& writer,
              Console& console,
              const JobSpec& spec,
              const RoundFacts& facts,
              const std::vector<pid_t>& earlier_children);
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;
  /// As end_now().
  ~WorkerGroup();

  /// Starts one worker per placement, but for survivors: they are told who they are now.
  /// Files lie in `directory`, which may be null where there are none, and in `scratch`; those of a
  /// survivor stay what they are. Errors: SystemError, with those started before still
  /// alive (end_now() or the destructor ends them).
  void start(const std::vector<Placement>& placements,
             const std::shared_ptr<const OwnedDir>& directory,
             const std::filesystem::path& scratch);

  /// Every worker started from now on inherits this descriptor.
  void share_lock(int fd) { lock_fd_ = fd; }
  /// Every worker started from now on is born in it. `cgroup` outlives the group.
  void use_cgroup(const JobCgroup& cgroup) { cgroup_ = &cgroup; }

  /// Takes an event in: an ending is kept and its worker reaped, an adopted orphan is reaped.
  void note(const AgentEvent& event);

  /// Keeps those as survivors that wait for the next round. Suspends: until all do that can, or
  /// somebody wants them ended; at most SurvivorWait::kLongest.
  asio::awaitable<void> settle();

  /// Nobody survives the round any more.
  void give_up_survivors();

  /// Ends the group but for survivors, as `escalation` says: every worker is told the reason and
  /// gets the first signal and SIGCONT; the last one is SIGKILL to every process group. Suspends:
  /// until all are reaped, at most the grace + kKillWait. Errors: none; who is still alive shows in
  /// alive().
  asio::awaitable<void> end(StopReason reason, Escalation escalation);

  /// Ends what the workers left behind, in whatever session, and reaps what this process adopted.
  /// Suspends: at most kKillWait. Errors: none; what could not be killed is named in the result.
  [[nodiscard]] asio::awaitable<std::vector<std::string>> sweep();

  /// What could not be killed counts as ended by our SIGKILL.
  void note_unkilled();

  /// Waits for the last lines, and says which stream is cut if one is. Suspends: as long as the
  /// writer is behind and moves, at most FileWriter::kStallWait for one that does not; besides that
  /// at most OutputDrain::kLongest, as a process that is not ours to kill may hold a pipe.
  asio::awaitable<void> drain();

  /// The last resort: kills and reaps all that was started, without suspending. Blocks: a second
  /// for each worker that the kernel does not let go of.
  void end_now();

  /// Writes on every worker's page why it is to end. Programs that do not read their page do not
  /// notice.
  void set_stop_reason(StopReason reason);

  /// SIGCONT to every worker.
  void wake();

  /// Sends `signal` to the workers that have a handler for it. Returns to how many.
  std::size_t forward(int signal);

  /// Children of ours that are no workers, and not to be reaped as orphans.
  void exempt(std::vector<pid_t> helpers) { helpers_ = std::move(helpers); }

  [[nodiscard]] std::size_t alive() const { return alive_; }
  [[nodiscard]] std::size_t survivors() const;  // of them
  [[nodiscard]] Clock::time_point began_at() const { return begin_; }
  /// Whether one says on its page that it writes a checkpoint when it is asked to stop.
  [[nodiscard]] bool saves_on_stop() const;
  [[nodiscard]] const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }

  static constexpr std::chrono::seconds kKillWait = Escalation::kKillWait;

 private:
  void take_over(Worker& worker, const Placement& placement);
  void start_one(const Placement& placement,
                 const std::shared_ptr<const OwnedDir>& directory,
                 const std::filesystem::path& scratch);
  LogFile place_file(const std::shared_ptr<const OwnedDir>& directory,
                     const std::filesystem::path& file);
  std::unique_ptr<LogStream> open_stream(const Placement& placement,
                                         const std::shared_ptr<const OwnedDir>& directory,
                                         const WorkerFiles& files,
                                         WorkerStream stream);
  void set_prefix(const Worker& worker, LogStream& stream, WorkerStream kind);
  asio::awaitable<void> wait_for_exit(std::size_t index);
  asio::awaitable<void> read_output(LogStream& stream);
  void note_exit(const WorkerExited& exit);
  [[nodiscard]] std::size_t running() const { return alive_ - survivors(); }
  std::size_t keep_survivors();
  std::size_t kill_marked();
  void set_ending(Worker& worker, ExitStatus status, Clock::time_point at) const;
  void signal_all(int signal);
  void kill_all_in_cgroup() const;
  void close_stream(const Worker& worker, LogStream& stream, const char* name);
  [[nodiscard]] bool is_worker(pid_t pid) const;
  [[nodiscard]] bool is_adopted(pid_t pid) const;
  [[nodiscard]] std::vector<pid_t> adopted() const;
  void reap_adopted();

  asio::io_context& io_;
  Inbox<AgentEvent>& inbox_;
  Guard& guard_;
  FileWriter& writer_;
  Console& console_;
  const JobSpec& spec_;
  const RoundFacts& facts_;
  LogMux mux_;  // before the workers, whose streams use it
  const std::string host_ = host_name();
  bool has_printed_problem_ = false;  // with directories: once, not for each worker
  // While workers are started. Owners: this, and the writer until it has opened the files.
  std::map<std::filesystem::path, std::shared_ptr<const OwnedDir>> directories_;
  const std::string variable_;  // DDP_AGENT_ID=..., the proof of belonging
  const std::vector<pid_t>& earlier_children_;
  std::vector<pid_t> helpers_;
  Clock::time_point begin_ = Clock::now();  // of the round
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t alive_ = 0;
  std::optional<Clock::time_point> kill_deadline_;  // of what got SIGKILL, once some did
  int lock_fd_ = -1;
  const JobCgroup* cgroup_ = nullptr;
};

}  // namespace ddp::launcher
