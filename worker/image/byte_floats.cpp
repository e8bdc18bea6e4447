#include "worker/image/byte_floats.h"

#include <algorithm>

namespace ddp::worker {
namespace {

/// byte / 255. Two products are faster than a quotient: 1 / 255 is split into two parts, the first
/// with so few bits that its product is exact. The rounded sum is then the exact quotient's
/// rounding for each of the 256 bytes (byte_floats_test).
[[gnu::always_inline]] inline float to_quotient(std::uint8_t byte) {
  constexpr float kFirst = 0x1.01p-8F;
  constexpr float kRest = static_cast<float>(1.0 / 255 - 0x1.01p-8);
  const float number = byte;
  return number * kFirst + number * kRest;
}

/// The bytes of a block are put side by side first, so that both loops become vectors.
[[gnu::always_inline]] inline void write_blocks(const std::uint8_t* planes,
                                                std::size_t count,
                                                float* into) {
  constexpr std::size_t kBlock = 256;  // pixels
  std::uint8_t bytes[3 * kBlock];
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t pixels = std::min(kBlock, count - first);
    const std::uint8_t* const red = planes + first;
    for (std::size_t i = 0; i < pixels; ++i) {
      bytes[3 * i] = red[i];
      bytes[3 * i + 1] = red[count + i];
      bytes[3 * i + 2] = red[2 * count + i];
    }
    float* const __restrict numbers = into + 3 * first;
    for (std::size_t i = 0; i < 3 * pixels; ++i)
      numbers[i] = to_quotient(bytes[i]);
  }
}

void write_floats(const std::uint8_t* planes, std::size_t count, float* into) {
  write_blocks(planes, count, into);
}

#ifdef __SSE2__
__attribute__((target("avx2"))) void write_floats_avx2(const std::uint8_t* planes,
                                                       std::size_t count,
                                                       float* into) {
  write_blocks(planes, count, into);
}
#endif

}  // namespace

const std::vector<FloatKernel>& float_kernels() {
  static const std::vector<FloatKernel> kKernels = [] {
    std::vector<FloatKernel> kernels{{"plain", write_floats}};
#ifdef __SSE2__
    if (__builtin_cpu_supports("avx2")) kernels.push_back({"AVX2", write_floats_avx2});
#endif
    return kernels;
  }();
  return kKernels;
}

}  // namespace ddp::worker
