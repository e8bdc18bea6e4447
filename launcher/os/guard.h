// The small process that outlives a killed agent just long enough to kill its workers.
// It is forked before the first worker, while the launcher has one thread and little memory; it
// lives in its own session, blocks every signal that can be blocked, and holds one end of a pipe.
// When the pipe ends without a disarm, the agent is dead. Then the guard kills the workers'
// sessions, those of daemons that the agent has seen, and every process whose environment holds our
// agent id, until two scans are empty. It removes the job's scratch directory if it is empty, and
// ends. So nothing outlives its agent, even after SIGKILL, neither grandchildren nor daemons,
// without cgroups. The exception is a daemon that has left its session and wiped its environment
// before the agent saw it.
// In a job of several nodes the guard also fences: if the agent does not renew the lease in time it
// kills the same processes, even if the agent lives (it is stopped, or hears nothing of node 0), as
// the other nodes have lost this one by then.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/plan/start/session.h"

namespace ddp::launcher {

/// The time of a clock that also runs while the machine sleeps, unlike steady_clock. A node that
/// slept for longer than the lease was lost by the others, so its guard kills before anything of
/// the round takes another step.
std::chrono::nanoseconds boot_time();

class Guard {
 public:
  /// `agent_id` marks the processes of this agent; `scratch` is an absolute path. Errors:
  /// SystemError.
  Guard(const std::string& agent_id, const std::filesystem::path& scratch);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  /// After disarm() the guard just ends. Without, it kills as if the agent had died. Blocks: at
  /// most 5 s.
  ~Guard();

  /// All of the job is in this cgroup. The guard kills it first, and removes it.
  void watch_cgroup(const std::filesystem::path& cgroup);
  /// A worker's session begins. Call it directly after the start.
  void watch_session(const Session& session);
  /// The session's leader is about to be reaped: afterwards its number may be reused.
  void forget_session(pid_t session);
  /// Takes the sessions below the agent, as sessions_below() finds them periodically. Those that
  /// are not workers' are daemons', and are watched until a later call does not name them.
  void set_daemons(const std::vector<Session>& found);
  /// From now on the guard fences. The lease also runs while the machine sleeps, as other nodes do
  /// not wait.
  void set_lease(std::chrono::milliseconds lease);
  /// Node 0 was heard, so the lease begins again. A lease that is over stays over.
  void renew_lease();
  /// Whether the lease is over: then all watched processes are dead or dying, and so is any that is
  /// started now. An agent that was stopped asks this before it goes on.
  [[nodiscard]] bool is_lease_over() const;
  /// If the guard was killed, starts another one that knows the same, and returns true. Call it
  /// about once a second. Errors: SystemError.
  bool replace_dead();
  /// Tells the guard that nothing of the job lives any more.
  void disarm();

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  void begin();
  void send(char kind, const Session& session, const std::string& text) const;

  const std::string agent_id_;
  const std::string scratch_;
  std::string cgroup_;
  std::vector<Session> sessions_;
  std::vector<Session> daemons_;  // sessions made by workers' descendants

  int pipe_ = -1;
  pid_t pid_ = 0;
  std::chrono::nanoseconds lease_{0};      // 0: none
  std::chrono::nanoseconds lease_end_{0};  // by boot_time()
};

}  // namespace ddp::launcher
