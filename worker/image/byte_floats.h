// Converts bytes of three planes to floats from 0 to 1, channels last, as models take them. Each
// float is byte / 255, correctly rounded, on every CPU: one loop is compiled for any x86-64 and for
// AVX2, and the fastest version is chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddp::worker {

/// One implementation.
struct FloatKernel {
  /// Shapes: `planes` [3, count], `into` [count, 3].
  using Write = void (*)(const std::uint8_t* planes, std::size_t count, float* into);

  const char* name = "";
  Write write = nullptr;
};

/// The kernels that this CPU can run: the portable one first, the fastest one last.
const std::vector<FloatKernel>& float_kernels();

}  // namespace ddp::worker
