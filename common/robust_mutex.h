// A mutex in memory that processes share. The kernel releases it when the thread that holds it
// ends, as by a SIGKILL of the process, before it frees the process's memory; the parent learns of
// the death after that (pthread_mutexattr_setrobust(3)).
#pragma once

#include <pthread.h>

namespace ddp {

inline void make_robust_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
}

}  // namespace ddp
