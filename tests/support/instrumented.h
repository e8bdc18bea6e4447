// Whether this is a sanitizer's build.
#pragma once

#include "common/sanitizer.h"

namespace ddp::test {

/// A sanitizer's build is larger and slower, with threads and handlers of its own. Bounds of time,
/// of memory, of processes and of what the kernel does to it do not hold there.
inline constexpr bool kInstrumented = kHasSanitizer;

/// What a bound of time is there.
template <typename Duration>
constexpr Duration allowed(Duration bound) {
  return kInstrumented ? 5 * bound : bound;
}

}  // namespace ddp::test
