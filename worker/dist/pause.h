// How long to wait between two polls of a state that sends no notification.
#pragma once

#include <algorithm>
#include <chrono>

namespace ddp::worker {

/// An eighth of the time `waited` so far: a change is noticed at most an eighth too late, and a
/// long wait polls rarely.
template <typename Duration>
Duration pause_after(std::chrono::nanoseconds waited, Duration shortest, Duration longest) {
  return std::clamp(std::chrono::duration_cast<Duration>(waited / 8), shortest, longest);
}

}  // namespace ddp::worker
