// A wait of the host for its device, which is asked again and again: a call that blocks could not
// be ended when the device itself waits for a rank that is gone.
#pragma once

#include <poll.h>

#include <chrono>
#include <thread>

#include "worker/dist/pause.h"

namespace ddp::worker {

/// Asks `is_done` again and again; between two questions `probe` may end the wait by an exception.
/// Blocks: until is_done() says yes. The end is noticed late, by at most an eighth of the wait and
/// 10 ms; in the first millisecond, which is enough for many steps, at once. Errors: those of both.
template <typename IsDone, typename Probe>
void poll_device(IsDone is_done, Probe probe) {
  using std::chrono::nanoseconds;
  constexpr std::chrono::milliseconds kSpin{1};
  constexpr nanoseconds kLongestPause = std::chrono::milliseconds(10);
  const auto begin = std::chrono::steady_clock::now();
  while (!is_done()) {
    probe();
    const nanoseconds waited = std::chrono::steady_clock::now() - begin;
    if (waited < kSpin) {
      std::this_thread::yield();
      continue;
    }
    const nanoseconds pause = pause_after(waited, nanoseconds(0), kLongestPause);
    const timespec time{0, pause.count()};
    ::ppoll(nullptr, 0, &time, nullptr);
  }
}

}  // namespace ddp::worker
