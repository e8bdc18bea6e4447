// A worker process, from fork to reap. Only this file reaps workers. It starts all of them but the
// copies of a template (os/rank_template). Other forks are helpers (common/node/helper_process).
// Pid, pidfd, kill and reap have one owner: a reaped pid may be reused, so reaping and forgetting
// it are one step (waitid(2)).
// Promises: the destructor leaves nothing of the process group alive; a failed exec is a
// SystemError here, in the parent.
// Trap: between fork and exec only async-signal-safe calls (signal-safety(7)): no allocation, no
// log, no exception; a worker even shares our memory until then (os/clone_child).
// Trap: the death signal is sent when the forking *thread* ends (prctl(2)), so only the launcher's
// main thread starts processes.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/node/environment.h"
#include "launcher/os/asio.h"
#include "launcher/plan/exit_status.h"

namespace ddp::launcher {

struct ProcessSpec {
  std::string label;  // in messages: "rank 3"
  std::string executable;
  std::vector<std::string> arguments;
  Environment environment;
  int stdin_fd = -1;            // -1: inherited
  bool takes_terminal = false;  // stdin_fd becomes its controlling terminal
  int stdout_fd = -1;
  int stderr_fd = -1;
  int inherited_fd = -1;  // stays open under its number: the progress page
  int cgroup_fd = -1;     // cgroup to create it in; ours if that fails
  std::vector<int> cpus;  // that it may use; empty: as ours
  int lock_fd = -1;       // stays open too, to keep the job locked
};

/// The parent of workers that are not our children: the fork of a warm template. It follows and
/// reaps them for us.
class ForeignParent {
 public:
  ForeignParent() = default;
  ForeignParent(const ForeignParent&) = delete;
  ForeignParent& operator=(const ForeignParent&) = delete;
  virtual ~ForeignParent() = default;

  /// How `child` has ended; it stays a zombie until reap(). Nothing: it runs. If this parent is
  /// gone, the kernel has killed its children: SIGKILL. Blocks: until this parent answers, at
  /// most 3 s; if it does not, it is killed.
  virtual std::optional<ExitStatus> find_exit(pid_t child) = 0;
  virtual void reap(pid_t child) = 0;
  /// Whether the pids of its children are still theirs.
  [[nodiscard]] virtual bool is_alive() const = 0;
};

class Process {
 public:
  /// Starts it as the leader of a new session, with default signals; the kernel kills it when the
  /// launcher dies. Blocks: until exec has succeeded or failed. Errors: SystemError, 127 for a
  /// missing program, 126 when it cannot be executed or started; then no process is left.
  Process(asio::io_context& io, const ProcessSpec& spec);
  /// Takes over a process that leads its session, and that this class has not started (a copy of
  /// os/rank_template). `parent`: whose child it is; null: ours. Errors: SystemError; then no
  /// process is left.
  Process(asio::io_context& io,
          pid_t child,
          bool is_in_cgroup,
          const std::string& label,
          std::shared_ptr<ForeignParent> parent = nullptr);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Sends SIGKILL to the group, then reaps. Blocks: until the leader has ended, at most a second;
  /// not at all after unwatch().
  ~Process();

  /// Suspends: until the leader has ended. It is not reaped yet, so that its group's number is not
  /// reused: call kill_group() for the rest of the group. Nothing: unwatch() came first.
  asio::awaitable<std::optional<ExitStatus>> wait();

  /// SIGKILL to all of the group. No effect when reaped.
  void kill_group() const { signal_group(SIGKILL); }

  /// Ends wait() for a process that cannot be killed.
  void unwatch();

  /// Reaps the leader. Precondition: wait() has returned.
  void reap();

  /// Forgets a child of ours that is to outlive us.
  void release() { pid_ = 0; }

  /// Sends `signal` to the whole group, then SIGCONT: a frozen process acts on nothing but SIGKILL.
  /// No effect when reaped.
  void signal(int signal);

  /// Sends `signal` to the leader alone, if it has a handler for it. Returns whether it was sent.
  [[nodiscard]] bool forward(int signal) const;

  [[nodiscard]] pid_t pid() const { return pid_; }  // 0 once reaped
  /// Whether it was created in the cgroup of its spec.
  [[nodiscard]] bool is_in_cgroup() const { return is_in_cgroup_; }
  [[nodiscard]] bool is_reaped() const { return pid_ == 0; }

 private:
  [[nodiscard]] std::optional<ExitStatus> find_exit() const;
  void signal_group(int signal) const;
  void watch(const std::string& label);
  [[noreturn]] void take_back(const char* call, const std::string& label, int error);

  pid_t pid_ = 0;
  bool is_in_cgroup_ = false;
  std::shared_ptr<ForeignParent> parent_;  // owners: this, its siblings and their template
  asio::posix::stream_descriptor pidfd_;
};

/// The signals that a process has handlers for: bit n-1 is signal n (SigCgt, proc(5)).
std::uint64_t caught_signals(pid_t pid);

/// Whether a process has a handler for `signal`.
bool catches_signal(pid_t pid, int signal);

/// Forks a copy of this process that leaves a core file, if the system writes them. Returns the
/// copy's pid, else 0. Async-signal-safe, for a handler of SIGABRT. The copy holds no descriptor of
/// ours. Blocks: until the file is written, at most `limit`.
pid_t leave_core(std::chrono::milliseconds limit);

/// The oldest child that has ended and is not reaped; 0: none.
pid_t ended_child();

/// Sends a signal to exactly the process behind the descriptor, never to a later owner of its pid.
bool signal_pidfd(int pidfd, int signal);

}  // namespace ddp::launcher
