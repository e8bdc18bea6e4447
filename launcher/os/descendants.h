// The processes of this job that are nobody's worker: found in /proc by what proves them ours,
// never by name. Proof is our agent id in their environment, or their session, as long as its
// number is still that session's (plan/start/session.h). Every kill goes through a pidfd that was
// opened before the proof was read, so a pid that changes hands in between hits nobody.
#pragma once

#include <sys/types.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "launcher/plan/hang/stack_sources.h"
#include "launcher/plan/start/session.h"

namespace ddp::launcher {

/// What a guard calls itself.
inline constexpr const char* kGuardName = "ddp-guard";

/// The session of a child of ours that has just become its leader, and is not reaped.
Session session_of(pid_t leader);

/// Now, as start times are told: in clock ticks since boot.
std::uint64_t boot_ticks();

/// SIGKILL to every living process whose environment holds `variable` ("DDP_AGENT_ID=...") or whose
/// session is one of `sessions`; not to this one. A session that is found again is held until now
/// from then on. Returns how many were found, or may be there; 0: none is left. Zombies do not
/// count.
std::size_t kill_descendants(const std::string& variable, std::span<Session> sessions);

/// From now on this process inherits what its workers leave behind (prctl(2),
/// PR_SET_CHILD_SUBREAPER). Errors: SystemError.
void become_subreaper();

/// Children of this process, ended or not: as a subreaper it inherits what its workers leave
/// behind.
std::vector<pid_t> children();

/// The users as whom processes run that this one, or its descendants, have started, its own left
/// out. Proof is the line of parents: a subreaper is never out of it. Cost: a small file for each
/// process of the machine.
std::set<uid_t> users_of_descendants();

/// The sessions, other than our own, in which living processes below this one are: workers lead
/// theirs, daemons have made some. `except`: what is at or below these children is left out, and so
/// is the guard of a launcher that runs as a worker. Each is held until now. Proof is the line of
/// parents: a subreaper is never out of it. Cost: a small file for each process of the machine.
std::vector<Session> sessions_below(std::span<const pid_t> except);

/// The living processes of these sessions.
std::vector<SessionProcess> session_processes(std::vector<Session> sessions);

/// Sends `signal` to a process that session_processes() found, if it is still of that session, and
/// wakes it if it is frozen. SIGABRT writes no core file then. Returns whether it was sent.
bool signal_in_session(pid_t pid, const Session& session, int signal);

/// "pid 17 (python3, state D, in folio_wait_bit)", for what could not be killed.
std::string describe_process(pid_t pid);

}  // namespace ddp::launcher
