// One line per step, and ddp-launch knows how this rank fares: exact detection of hangs, live line,
// status. C99 and C++, this header alone, no library:
//
//   struct ddp_progress* progress = ddp_progress_open();
//   for (...) { ...; ddp_progress_step(progress, i, loss); }
//   ddp_progress_finish(progress);
//
// Without ddp-launch it does nothing; open() never returns null. A program that leaves with 0 and
// has not called finish() has failed. Between two steps: ddp_progress_phase() for what takes long
// ("saving" has no automatic limit), ddp_progress_enter() and ddp_progress_leave() around what
// waits for other ranks. All of it is a few stores to memory; only open() calls the system.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DDP_PROGRESS_VERSION 4

enum ddp_progress_phase {
  DDP_PROGRESS_NONE,
  DDP_PROGRESS_STARTING,
  DDP_PROGRESS_JOINING,
  DDP_PROGRESS_LOADING,
  DDP_PROGRESS_TRAINING,
  DDP_PROGRESS_EVALUATING,
  DDP_PROGRESS_SAVING,
  DDP_PROGRESS_STOPPING,
  DDP_PROGRESS_FINISHED,
  DDP_PROGRESS_DATA,
  DDP_PROGRESS_FORWARD,
  DDP_PROGRESS_BACKWARD,
  DDP_PROGRESS_PHASES /* their number */
};

/* The page as common/progress/progress_page.h has it. */
struct ddp_progress {
  uint32_t version;
  uint32_t phase;
  uint32_t stop_reason; /* written by the agent */
  uint32_t collectives;
  int64_t epoch;
  int64_t step;
  int64_t steps_total;
  int64_t samples; /* of the whole job */
  double loss;     /* -infinity: not reported */
  double lr;       /* likewise */
  int64_t checkpoint_step;
  int64_t time_ns;
  uint32_t saves_on_stop;
  uint32_t was_asked;
  int64_t data_wait_ns; /* that the loop has waited for data since it began */
  int64_t device_bytes; /* that this rank holds on its GPU */
  double accuracy;      /* share of right answers in the newest evaluation; NaN: there was none */
  int64_t counted_ns;   /* until when the time was counted, in one of the next */
  int64_t waited_ns;    /* between enter and leave */
  int64_t spent_ns[DDP_PROGRESS_PHASES];
};

static inline int64_t ddp_progress_clock(void) {
  struct timespec now;
  int64_t time;
  clock_gettime(CLOCK_MONOTONIC, &now);
  time = now.tv_sec;
  return time * 1000000000 + now.tv_nsec;
}

static inline void ddp_progress_alive(struct ddp_progress* page) {
  __atomic_store_n(&page->time_ns, ddp_progress_clock(), __ATOMIC_RELAXED);
}

/* Adds the time since the last call to what the page says that the rank is at. */
static inline void ddp_progress_count(struct ddp_progress* page) {
  const int64_t now = ddp_progress_clock();
  int64_t* const sum = page->collectives > 0 ? &page->waited_ns : &page->spent_ns[page->phase];
  if (page->counted_ns != 0 && page->phase < DDP_PROGRESS_PHASES)
    __atomic_store_n(sum, *sum + now - page->counted_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&page->counted_ns, now, __ATOMIC_RELAXED);
}

static inline void ddp_progress_phase(struct ddp_progress* page, enum ddp_progress_phase phase) {
  const uint32_t number = phase;
  ddp_progress_alive(page);
  ddp_progress_count(page);
  __atomic_store_n(&page->phase, number, __ATOMIC_RELAXED);
}

static inline struct ddp_progress* ddp_progress_open(void) {
  static struct ddp_progress none; /* written, and read by nobody */
  static const char kName[] = "/memfd:ddp-progress";
  struct ddp_progress* page = &none;
  const char* const text = getenv("DDP_PROGRESS_FD");
  char path[64];
  char target[sizeof kName] = "";
  /* A process that was started by a worker has the variable, but another file behind the number. */
  snprintf(path, sizeof path, "/proc/self/fd/%d", text != NULL ? atoi(text) : -1);
  if (readlink(path, target, sizeof kName - 1) > 0 &&
      memcmp(target, kName, sizeof kName - 1) == 0) {
    void* const memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(text), 0);
    if (memory != MAP_FAILED) {
      memcpy(&page, &memory, sizeof page); /* C++ dislikes a cast of C */
      close(atoi(text));
    }
  }
  ddp_progress_phase(page, DDP_PROGRESS_STARTING);
  __atomic_store_n(&page->version, DDP_PROGRESS_VERSION, __ATOMIC_RELEASE);
  return page;
}

/* Step number `step` is done. */
static inline void ddp_progress_step(struct ddp_progress* page, int64_t step, double loss) {
  const uint32_t phase = page->phase;
  __atomic_store(&page->loss, &loss, __ATOMIC_RELAXED);
  __atomic_store_n(&page->step, step, __ATOMIC_RELAXED);
  if (phase != DDP_PROGRESS_TRAINING && phase < DDP_PROGRESS_DATA) {
    ddp_progress_phase(page, DDP_PROGRESS_TRAINING);
  } else {
    ddp_progress_alive(page);
  }
}

/* From here to ddp_progress_leave() this rank waits for others, and is not to blame. */
static inline void ddp_progress_enter(struct ddp_progress* page) {
  ddp_progress_count(page);
  __atomic_fetch_add(&page->collectives, 1U, __ATOMIC_RELAXED);
}
static inline void ddp_progress_leave(struct ddp_progress* page) {
  ddp_progress_count(page);
  __atomic_fetch_sub(&page->collectives, 1U, __ATOMIC_RELAXED);
}

/* The checkpoint of that step is whole: a round that follows begins there. */
static inline void ddp_progress_checkpoint(struct ddp_progress* page, int64_t step) {
  __atomic_store_n(&page->checkpoint_step, step, __ATOMIC_RELAXED);
}

/* The loop has waited that long for data since it began, and holds so much of its GPU's memory; 0:
 * unknown. */
static inline void ddp_progress_costs(struct ddp_progress* page,
                                      int64_t data_wait_ns,
                                      int64_t device_bytes) {
  __atomic_store_n(&page->data_wait_ns, data_wait_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&page->device_bytes, device_bytes, __ATOMIC_RELAXED);
}

/* An evaluation had that share of right answers, from 0 to 1. */
static inline void ddp_progress_accuracy(struct ddp_progress* page, double accuracy) {
  __atomic_store(&page->accuracy, &accuracy, __ATOMIC_RELAXED);
}

static inline void ddp_progress_finish(struct ddp_progress* page) {
  ddp_progress_phase(page, DDP_PROGRESS_FINISHED);
}
