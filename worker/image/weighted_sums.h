// The two loops of a resize: weighted sums of pixels side by side, and of rows one below the other,
// rounded to bytes. Weights are whole numbers, so that every way to add gives the same sums: plain
// loops, and multiply-adds of pairs (AVX2), which are chosen as the program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddp::worker {

/// Bytes of a pixel here: red, green, blue, and one that is not used. Or a byte of each of four
/// rows.
inline constexpr std::size_t kPixel = 4;
/// Bytes that SumWay::rows takes at once, at most.
inline constexpr std::size_t kVectorBytes = 32;

/// One way to make the sums.
struct SumWay {
  /// Pixel i of `into` becomes the sum over t < `taps` of `row`'s pixel first[i] + t times
  /// weights[i *
  /// taps + t], divided by 2 to the power of `shift`. Precondition: `taps` is a multiple of 4,
  /// and `row` has first[i] + `taps` pixels. Writes kPixel * `count` bytes.
  using Pixels = void (*)(const std::uint8_t* row,
                          const int* first,
                          const std::int16_t* weights,
                          std::size_t taps,
                          int shift,
                          std::size_t count,
                          std::uint8_t* into);

  /// Byte x of `into` becomes the sum over t < `taps` of byte x of row t times weights[t], divided
  /// as above. Rows begin every `stride` bytes. Precondition: `stride` is a multiple of
  /// kVectorBytes.
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

/// The ways that this CPU has, the fastest one last.
const std::vector<SumWay>& sum_ways();

}  // namespace ddp::worker
