// A session of processes, known by more than its number, which may be used again. Pure.
// The number of a session is its leader's pid, and the kernel gives it to nobody else while any
// process has it as pid, group or session (kernel/pid.c, __change_pid() frees it with the last
// one). So members that outlive their leader keep it; once all of them are gone it may be
// anybody's, and a number that was noted before says nothing. Proof that it is still the same
// session: its leader, ended or not, with the start time of that leader; or a member that was there
// when the number was surely that session's: then it has been held ever since. A process that has
// the number as its pid and is not that leader is proof of the opposite.
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

/// Whether that process proves that the number still stands for that session. Of a tick of 10 ms
/// nobody knows which came first in it; for a number to come round again takes longer.
inline bool proves(const Session& session, const SessionMember& process) {
  if (process.session != session.number) return false;
  if (process.pid == session.number) return process.started == session.started;
  return process.started <= session.held_until;
}

inline bool disproves(const Session& session, const SessionMember& process) {
  return process.pid == session.number && process.started != session.started;
}

}  // namespace ddp::launcher
