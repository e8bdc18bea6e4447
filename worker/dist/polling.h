// Waits by polling, for states that send no notification.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace ddp::worker {

/// An eighth of the time `waited` so far: a change is noticed at most an eighth too late, and a
/// long wait polls rarely.
template <typename Duration>
Duration pause_after(std::chrono::nanoseconds waited, Duration shortest, Duration longest) {
  return std::clamp(std::chrono::duration_cast<Duration>(waited / 8), shortest, longest);
}

/// For a condition that other processes fulfil. Calls `is_there` every 10 ms, at least once.
/// Blocks: until it returns true, or until `deadline` (returns false). Errors: those of `is_there`.
template <typename IsThere>
bool poll_until(std::chrono::steady_clock::time_point deadline, IsThere is_there) {
  constexpr std::chrono::milliseconds kPause{10};
  while (!is_there()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, static_cast<int>(kPause.count()));
  }
  return true;
}

/// Waits for the device. A blocking call could not be interrupted when the device itself waits for
/// a lost rank. Polls `is_done`; between two polls `check` may end the wait by an exception.
/// Blocks: until is_done() returns true. In the first millisecond, which is enough for many steps,
/// it does not sleep; later it notices the end late by at most an eighth of the wait, and by 10 ms.
/// Errors: those of both.
template <typename IsDone, typename Check>
void poll_device(IsDone is_done, Check check) {
  using std::chrono::nanoseconds;
  constexpr std::chrono::milliseconds kSpin{1};
  constexpr nanoseconds kLongestPause = std::chrono::milliseconds(10);
  const auto begin = std::chrono::steady_clock::now();
  while (!is_done()) {
    check();
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
