// A session of processes, identified by more than its number, which may be reused. Pure.
// The number of a session is its leader's pid. The kernel does not reuse it while any process has
// it as pid, group or session (kernel/pid.c, __change_pid() frees it with the last one). So members
// that outlive their leader keep it. When all of them are gone the number may be reused, and a
// noted number proves nothing. Two facts prove that it is still the same session: its leader, alive
// or a zombie, has the noted start time; or a member started while the number was surely this
// session's, as that member has kept the number in use since. A process that has the number as its
// pid and is not that leader disproves it.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace ddp::launcher {

/// Times are in clock ticks since boot (proc(5), starttime).
struct Session {
  pid_t number = 0;
  std::uint64_t started = 0;     // start time of its leader
  std::uint64_t held_until = 0;  // the last time when the number was surely its own
  bool operator==(const Session&) const = default;
};

/// A process as /proc shows it.
struct SessionMember {
  pid_t pid = 0;
  pid_t session = 0;
  std::uint64_t started = 0;
};

/// Whether that process proves that the number still means that session. The order of two events
/// within one tick (10 ms) is not known, which is harmless, as the reuse of a number takes longer.
inline bool proves(const Session& session, const SessionMember& process) {
  if (process.session != session.number) return false;
  if (process.pid == session.number) return process.started == session.started;
  return process.started <= session.held_until;
}

inline bool disproves(const Session& session, const SessionMember& process) {
  return process.pid == session.number && process.started != session.started;
}

}  // namespace ddp::launcher
