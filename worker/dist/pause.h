// How long to wait between two polls of a state that sends no notification.
#pragma once

#include <algorithm>
#include <chrono>

namespace ddp::worker {

/// An eighth of the time `waited` so far: a change is noticed at most an eighth too late, and a
/// long wait polls rarely.
inline std::chrono::milliseconds pause_after(std::chrono::nanoseconds waited,
                                             std::chrono::milliseconds shortest,
                                             std::chrono::milliseconds longest) {
  return std::clamp(
      std::chrono::duration_cast<std::chrono::milliseconds>(waited / 8), shortest, longest);
}

}  // namespace ddp::worker
