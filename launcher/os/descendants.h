// Finds the processes that workers have started, in /proc, by proof that they are ours, never by
// name. Proof is our agent id in their environment, or their session, while its number is still
// that session's (plan/start/session). Every kill uses a pidfd that was opened before the proof was
// read, so a pid that is reused in between hits no other process.
#pragma once

#include <sys/types.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "launcher/plan/hang/stack_sources.h"
#include "launcher/plan/start/session.h"

namespace ddp::launcher {

/// The process name of a guard.
inline constexpr const char* kGuardName = "ddp-guard";

/// The session of a child of ours that leads it and is not reaped.
Session session_of(pid_t leader);

/// The current time in clock ticks since boot, comparable with start times.
std::uint64_t boot_ticks();

/// Sends SIGKILL to every live process whose environment holds `variable` ("DDP_AGENT_ID=...") or
/// whose session is one of `sessions`, except this one. A session that is found again gets
/// held_until = now. Returns how many were found, or may be there; 0: none is left. Zombies do not
/// count, nor do those in `spared`.
std::size_t kill_descendants(const std::string& variable,
                             std::span<Session> sessions,
                             std::span<const pid_t> spared = {});

/// From now on this process adopts the orphans of its workers (prctl(2), PR_SET_CHILD_SUBREAPER).
/// Errors: SystemError.
void become_subreaper();

/// The children of this process, ended or not, including adopted orphans.
std::vector<pid_t> children();

/// The users, other than our own, as whom descendants of this process run. Proof is the chain of
/// parents, which always contains a subreaper. Cost: a small file for each process of the machine.
std::set<uid_t> users_of_descendants();

/// The sessions, other than our own, of live descendants: those that workers lead, and those that
/// daemons have made; also those below the process `also`, a subreaper. Left out are `except` and
/// their descendants, and the guard of a launcher that runs as a worker. Each gets held_until =
/// now. Proof is the chain of parents, which always contains a subreaper. Cost: a small file for
/// each process of the machine.
std::vector<Session> sessions_below(std::span<const pid_t> except, pid_t also = 0);

/// The live processes of these sessions.
std::vector<SessionProcess> session_processes(std::vector<Session> sessions);

/// Sends `signal` to a process that session_processes() found, if it still belongs to that session,
/// and wakes it if it is frozen. After SIGABRT it writes no core file. Returns whether the signal
/// was sent.
bool signal_in_session(pid_t pid, const Session& session, int signal);

/// The command line, with blanks for null bytes; empty: it has ended, or has erased it.
std::string command_of(pid_t pid);

/// The value of a variable at the start of the process; empty: it has none, or has erased it.
std::string variable_of(pid_t pid, const std::string& name);

/// "pid 17 (python3, state D, in folio_wait_bit)", for what could not be killed.
std::string describe_process(pid_t pid);

}  // namespace ddp::launcher
