// A session of processes, known by more than its number, which may be used again. Pure.
// The number of a session is its leader's pid, and the kernel gives it to nobody else while any
// process has it as pid, group or session (kernel/pid.c, __change_pid() frees it with the last
// one). So members that outlive their leader keep it; once all of them are gone it may be
// anybody's, and a number that was noted before says nothing. Two things prove that it is still the
// same session: its leader, alive or a zombie, with the noted start time; or a member that started
// while the number was surely that session's, as that member has kept the number in use since. A
// process that has the number as its pid and is not that leader is proof of the opposite.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace ddp::launcher {

/// Times are in clock ticks since boot (proc(5), starttime).
struct Session {
  pid_t number = 0;
  std::uint64_t started = 0;     // when its leader was
  std::uint64_t held_until = 0;  // the newest time at which the number was surely this session's
  bool operator==(const Session&) const = default;
};

/// A process as /proc shows it.
struct SessionMember {
  pid_t pid = 0;
  pid_t session = 0;
  std::uint64_t started = 0;
};

/// Whether that process proves that the number still stands for that session. The order of two
/// events within one tick (10 ms) is not known; that does no harm, as a number takes longer to be
/// used again.
inline bool proves(const Session& session, const SessionMember& process) {
  if (process.session != session.number) return false;
  if (process.pid == session.number) return process.started == session.started;
  return process.started <= session.held_until;
}

inline bool disproves(const Session& session, const SessionMember& process) {
  return process.pid == session.number && process.started != session.started;
}

}  // namespace ddp::launcher
