// The processes of this job that are nobody's worker: found in /proc by what proves them ours,
// never by name. Proof is the job's random run id in their environment, or their session. Every
// kill goes through a pidfd that was opened before the proof was read, so a pid that changes hands
// in between hits nobody.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "launcher/plan/stack_sources.h"

namespace ddp::launcher {

/// SIGKILL to every living process whose environment holds `variable` ("DDP_AGENT_ID=...") or whose
/// session is one of `sessions`; not to this one. Returns how many were found. Zombies do not
/// count.
std::size_t kill_descendants(const std::string& variable, std::span<const pid_t> sessions);

/// From now on this process inherits what its workers leave behind (prctl(2),
/// PR_SET_CHILD_SUBREAPER). Errors: SystemError.
void become_subreaper();

/// Children of this process, ended or not: as a subreaper it inherits what its workers leave
/// behind.
std::vector<pid_t> children();

/// The living processes of these sessions.
std::vector<SessionProcess> session_processes(std::span<const pid_t> sessions);

/// Sends `signal` to a process that session_processes() found, if it is still of that session, and
/// wakes it if it is stopped. SIGABRT writes no core file then. Returns whether it was sent.
bool signal_in_session(pid_t pid, pid_t session, int signal);

/// "pid 17 (python3, state D, in folio_wait_bit)", for what could not be killed.
std::string describe_process(pid_t pid);

}  // namespace ddp::launcher
