// Waits for the device by polling. A blocking call could not be interrupted when the device itself
// waits for a lost rank.
#pragma once

#include <poll.h>

#include <chrono>
#include <thread>

#include "worker/dist/pause.h"

namespace ddp::worker {

/// Polls `is_done`; between two polls `probe` may end the wait by an exception. Blocks: until
/// is_done() returns true. In the first millisecond, which is enough for many steps, it does not
/// sleep; later it notices the end late by at most an eighth of the wait, and by 10 ms. Errors:
/// those of both.
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
