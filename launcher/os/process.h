// A worker process, from fork to reap, and the only place that forks, executes and waits.
// Pid, pidfd, kill and reap have one owner: once reaped, a pid may be anybody's, so reaping and
// forgetting are one step (waitid(2)). Promises: the destructor leaves nothing of the process group
// alive; a failed exec is a SystemError here, in the parent. Trap: between fork and exec only
// async-signal-safe calls (signal-safety(7)): no allocation, no log, no exception; a worker even
// borrows our memory until then (os/clone_child). Trap: the death signal belongs to the forking
// *thread* (prctl(2)), so only the launcher's one thread starts processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/node/identity.h"
#include "launcher/os/asio.h"
#include "launcher/plan/exit_status.h"

namespace ddp::launcher {

struct ProcessSpec {
  std::string label;  // in messages: "rank 3"
  std::string executable;
  std::vector<std::string> arguments;
  Environment environment;
  int stdin_fd = -1;  // -1: as we
  int stdout_fd = -1;
  int stderr_fd = -1;
  int inherited_fd = -1;  // stays open under its number: the progress page
  int cgroup_fd = -1;     // directory of a cgroup to be born in; where that cannot be: as we
  std::vector<int> cpus;  // that it may use; empty: as we
  int lock_fd = -1;       // stays open too: the job is locked as long as anything of it lives
};

class Process {
 public:
  /// Starts it as the leader of a new session, with default signals, and killed by the kernel when
  /// the launcher dies. Blocks: until exec succeeded or failed. Errors: SystemError, 127 for a
  /// missing program, 126 when it cannot be executed or started; nothing of it is left then.
  Process(asio::io_context& io, const ProcessSpec& spec);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// SIGKILL to the group, then reap. Blocks: until the kernel lets go of the leader, at most a
  /// second; not at all after unwatch().
  ~Process();

  /// Suspends: until the leader has ended; then the rest of its group is killed. Not yet reaped:
  /// until then the group's number is nobody else's.
  /// Nothing when unwatch() came first.
  asio::awaitable<std::optional<ExitStatus>> wait();

  /// It cannot be killed: wait() ends, so that nobody waits for ever.
  void unwatch();

  /// Gives the pid back. Precondition: wait() has returned.
  void reap();

  /// Sends `signal` to the whole group, then SIGCONT: a frozen process acts on nothing but
  /// SIGKILL. Nothing when reaped.
  void signal(int signal);

  /// Sends `signal` to the leader alone, if it has a handler for it. Returns whether it was sent.
  [[nodiscard]] bool forward(int signal) const;

  [[nodiscard]] pid_t pid() const { return pid_; }  // 0 once reaped
  /// Whether it was born in the cgroup of its spec.
  [[nodiscard]] bool is_in_cgroup() const { return is_in_cgroup_; }
  [[nodiscard]] bool is_reaped() const { return pid_ == 0; }

 private:
  void signal_group(int signal) const;
  [[noreturn]] void take_back(const char* call, const ProcessSpec& spec, int error);

  pid_t pid_ = 0;
  bool is_in_cgroup_ = false;
  asio::posix::stream_descriptor pidfd_;
};

/// Forks a helper of our own: new session, all signals blocked, no descriptor but `inherited_fd`,
/// never returns from `body`. Owns: the caller reaps the pid. Errors: SystemError.
pid_t fork_helper(void (*body)(int), int inherited_fd);

/// The signals that a process has handlers for: bit n-1 is signal n (SigCgt, proc(5)).
std::uint64_t caught_signals(pid_t pid);

/// Whether a process has a handler for `signal`.
bool catches_signal(pid_t pid, int signal);

/// Sends `signal` to one process of ours. To kill(2) 0 and negative numbers are many processes, -1
/// all of the machine; such a number, or that of init, is nobody's here: false, as when it is gone.
bool signal_process(pid_t pid, int signal);

/// The pid of a copy of this process that has left a core file, where the system writes them; else
/// 0. For a handler of SIGABRT: async-signal-safe. The copy holds no descriptor of ours. Blocks:
/// until the file is written, at most for `limit`.
pid_t leave_core(std::chrono::milliseconds limit);

/// A child that has ended and is not reaped yet, the oldest of those; 0: none.
pid_t ended_child();

/// Reaps one child that has ended. Blocks: at most `limit`. Errors: false when it has not ended by
/// then.
bool reap_within(pid_t pid, std::chrono::milliseconds limit);

/// A descriptor for a process that need not be a child (pidfd_open(2)), or -1.
int open_pidfd(pid_t pid);

/// Sends a signal to exactly the process behind the descriptor, never to a later owner of its pid.
bool signal_pidfd(int pidfd, int signal);

}  // namespace ddp::launcher
