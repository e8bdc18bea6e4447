// The two inner loops of a resize: weighted sums of neighbouring pixels, and of neighbouring rows,
// rounded to bytes. Weights are integers, so every kernel gives the same sums. There are portable
// loops and AVX2 versions; the fastest is chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddp::worker {

/// Bytes of a pixel here: red, green, blue and an unused one; for a grey image, one byte of each of
/// four rows.
inline constexpr std::size_t kPixel = 4;
/// The largest number of bytes that SumKernel::rows computes at once.
inline constexpr std::size_t kVectorBytes = 32;

/// An implementation of both loops.
struct SumKernel {
  /// Sums neighbouring pixels. Pixel i of `into` is the sum over t < `taps` of the products
  ///   (pixel first[i] + t of `row`) x weights[i * taps + t],
  /// divided by 2^shift. Precondition: `taps` is a multiple of 4, and `row` has first[i] + `taps`
  /// pixels. Writes kPixel * `count` bytes.
  using Pixels = void (*)(const std::uint8_t* row,
                          const int* first,
                          const std::int16_t* weights,
                          std::size_t taps,
                          int shift,
                          std::size_t count,
                          std::uint8_t* into);

  /// Sums rows. Byte x of `into` is the sum over t < `taps` of the products
  ///   (byte x of row t) x weights[t],
  /// divided by 2^shift. Rows begin every `stride` bytes. Precondition: `stride` is a multiple of
  /// kVectorBytes. Writes `stride` bytes.
  using Rows = void (*)(const std::uint8_t* rows,
                        std::size_t stride,
                        const std::int16_t* weights,
                        std::size_t taps,
                        int shift,
                        std::uint8_t* into);

  const char* name = "";
  Pixels pixels = nullptr;
  Rows rows = nullptr;
};

/// The kernels that this CPU can run, the fastest one last.
const std::vector<SumKernel>& sum_kernels();

}  // namespace ddp::worker
