// Pixels in the form that a model takes: bytes of three planes become numbers from 0 to 1, with the
// colours of a pixel side by side. Each number is byte / 255 to the nearest, on every CPU: one
// loop, compiled for any x86-64 and for AVX2, and chosen at run time.
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

/// The kernels that this CPU can run: the one for every CPU first, the fastest one last.
const std::vector<FloatKernel>& float_kernels();

}  // namespace ddp::worker
