#include "common/progress/alive_lock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <new>

#include "common/robust_mutex.h"

namespace ddp {
namespace {

static_assert(kAliveLockOffset + sizeof(pthread_mutex_t) <= 4096);
// glibc's layout, on each machine that this runs on: the word comes first.
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

std::byte* place(ProgressPage& page) {
  return reinterpret_cast<std::byte*>(&page) + kAliveLockOffset;
}

pthread_mutex_t* lock_of(ProgressPage& page) {
  return std::launder(reinterpret_cast<pthread_mutex_t*>(place(page)));
}

}  // namespace

void make_alive_lock(ProgressPage& page) {
  make_robust_mutex(*lock_of(page));
}

void take_alive_lock(ProgressPage& page) {
  if (::gettid() != ::getpid()) return;
  // An earlier process may have died with the page, as when the worker is a script that tries
  // again.
  if (::pthread_mutex_trylock(lock_of(page)) == EOWNERDEAD)
    ::pthread_mutex_consistent(lock_of(page));
}

bool release_alive_lock(ProgressPage& page) {
  const std::uint32_t word = alive_word(page).load(std::memory_order_relaxed);
  if (!is_held_by(word, ::getpid())) return true;
  return ::gettid() == ::getpid() && ::pthread_mutex_unlock(lock_of(page)) == 0;
}

std::atomic<std::uint32_t>& alive_word(ProgressPage& page) {
  return *std::launder(reinterpret_cast<std::atomic<std::uint32_t>*>(place(page)));
}

bool is_held_by(std::uint32_t word, pid_t pid) {
  return (word & FUTEX_OWNER_DIED) == 0 &&
         (word & FUTEX_TID_MASK) == static_cast<std::uint32_t>(pid);
}

}  // namespace ddp
