// How long to wait between two looks at what nobody tells of.
#pragma once

#include <algorithm>
#include <chrono>

namespace ddp::worker {

/// An eighth of what was `waited` so far: what is looked for is seen late by no more than that part
/// of the time it took, and a long wait costs little.
inline std::chrono::milliseconds pause_after(std::chrono::nanoseconds waited,
                                             std::chrono::milliseconds shortest,
                                             std::chrono::milliseconds longest) {
  return std::clamp(
      std::chrono::duration_cast<std::chrono::milliseconds>(waited / 8), shortest, longest);
}

}  // namespace ddp::worker
