// The small process that outlives a killed agent just long enough to kill its workers.
// It is forked before the first worker, while the launcher has one thread and little memory; it
// lives in its own session, ignores every signal and holds one end of a pipe. When the pipe ends
// without a disarm, the agent is dead: it kills the workers' sessions, those of daemons that the
// agent has seen while it lived, and every process whose environment holds our agent id, until two
// scans are empty, removes the job's scratch directory if it is empty, and ends. This makes
// "nothing outlives its agent" true for SIGKILL, for grandchildren and for daemons, without
// cgroups, but for a daemon that has wiped its environment since the agent's last look.
// In a job of several nodes it also fences: without a heartbeat of the agent for a lease it kills
// the same, though the agent may live (it is stopped, or hears nothing of node 0), since the other
// nodes have lost this one by then.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/plan/start/session.h"

namespace ddp::launcher {

/// Of the clock that runs on while the machine sleeps, as steady_clock does not: who slept for
/// longer than the lease was lost by the others, and kills before anything of its round takes
/// another step.
std::chrono::nanoseconds boot_time();

class Guard {
 public:
  /// `agent_id` marks what this agent starts, `scratch` is an absolute path. Errors: SystemError.
  Guard(const std::string& agent_id, const std::filesystem::path& scratch);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  /// After disarm(): ends it. Without: it does its work, as if the agent had died. Blocks: at
  /// most 5 s.
  ~Guard();

  /// All of the job is in this cgroup: its kill comes first, and it is removed.
  void cover(const std::filesystem::path& cgroup);
  /// A worker's session begins; tell it before anything of it can be lost.
  void cover(const Session& session);
  /// The session's leader is about to be reaped: from then on the number may be anybody's.
  void forget(pid_t session);
  /// The sessions below the agent, as sessions_below() finds them now and then. Those that are of
  /// no worker are daemons': they are covered, too, until a look does not find them any more.
  void cover_daemons(const std::vector<Session>& found);
  /// From now on it fences. The lease runs while the machine sleeps too: the others do not wait.
  void set_lease(std::chrono::milliseconds lease);
  /// Node 0 has been heard, so the lease begins again; unless it is over, which is for good.
  void renew_lease();
  /// All that it was told of is dead or dying, and so is whatever is started now. An agent that was
  /// stopped asks before it goes on.
  [[nodiscard]] bool is_lease_over() const;
  /// Somebody has killed it: another one takes its place and knows what it knew. True when that was
  /// so. To be asked about once a second. Errors: SystemError.
  bool replace_dead();
  /// Nothing of the job lives any more.
  void disarm();

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  void begin();
  void send(char kind, const Session& session, const std::string& text) const;

  const std::string agent_id_;
  const std::string scratch_;
  std::string cgroup_;
  std::vector<Session> sessions_;
  std::vector<Session> daemons_;  // sessions that workers' descendants have made

  int pipe_ = -1;
  pid_t pid_ = 0;
  std::chrono::nanoseconds lease_{0};      // 0: none
  std::chrono::nanoseconds lease_end_{0};  // by the clock that runs on while the machine sleeps
};

}  // namespace ddp::launcher
