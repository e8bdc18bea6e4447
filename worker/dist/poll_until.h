// Waits for a condition that other processes fulfil, for ranks that are about to exit.
#pragma once

#include <poll.h>

#include <chrono>

namespace ddp::worker {

/// Calls `is_there` every 10 ms, at least once. Blocks: until it returns true, or until `deadline`
/// (returns false).
/// Errors: those of `is_there`.
template <typename IsThere>
bool poll_until(std::chrono::steady_clock::time_point deadline, IsThere is_there) {
  constexpr std::chrono::milliseconds kPause{10};
  while (!is_there()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, static_cast<int>(kPause.count()));
  }
  return true;
}

}  // namespace ddp::worker
