// The third part of a progress page: a lock that the worker's main thread holds as long as it
// lives. When the process dies, whatever the cause, the kernel marks the lock and wakes those that
// wait for its word, before it frees the process's memory and devices; the parent learns of the
// death after that. Source: "Robust futexes", Linux's Documentation/locking/robust-futexes.rst.
// Traps: the lock is the C library's, because a thread has one list of robust locks, which belongs
// to it. The holder must release the lock before it unmaps the page: the list leads through it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/progress/progress_page.h"

namespace ddp {

inline constexpr std::size_t kAliveLockOffset = 3072;  // bytes from the page's begin

/// The agent's side, for a new page.
void make_alive_lock(ProgressPage& page);

/// The worker's side. Only its main thread takes the lock, as the others may end before it.
void take_alive_lock(ProgressPage& page);
/// Releases the lock if this thread has it. False: another thread of this process has it.
bool release_alive_lock(ProgressPage& page);

/// The word that the kernel writes and wakes. The worker may write anything into it.
std::atomic<std::uint32_t>& alive_word(ProgressPage& page);
/// Whether `word` says that the main thread of `pid` holds the lock, and lives.
bool is_held_by(std::uint32_t word, pid_t pid);

}  // namespace ddp
