// The two loops of a resize: weighted sums of pixels side by side, and of rows one below the other,
// rounded to bytes. Weights are whole numbers, so that every way to add gives the same sums.
// All four bytes of a pixel at once, by multiply-adds of pairs, which every x86-64 has; elsewhere
// plain loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp::worker {

/// Bytes of a pixel here: red, green, blue, and one that is not used.
inline constexpr std::size_t kPixel = 4;
/// Bytes that sum_rows() takes at once.
inline constexpr std::size_t kVectorBytes = 16;

/// Puts three planes of `count` bytes side by side. Writes no more than kPixel * `count` bytes.
void interleave(const std::uint8_t* red,
                const std::uint8_t* green,
                const std::uint8_t* blue,
                std::size_t count,
                std::uint8_t* into);

/// Pixel i of `into` becomes the sum over t < `taps` of `row`'s pixel first[i] + t times weights[i
/// * taps + t], divided by 2 to the power of `shift`. Precondition: `taps` is a multiple of 4, and
/// `row` has first[i] + `taps` pixels. Writes kPixel * `count` bytes.
void sum_pixels(const std::uint8_t* row,
                const int* first,
                const std::int16_t* weights,
                std::size_t taps,
                int shift,
                std::size_t count,
                std::uint8_t* into);

/// Byte x of `into` becomes the sum over t < `taps` of byte x of row t times weights[t], divided as
/// above. Rows begin every `stride` bytes. Precondition: `stride` is a multiple of kVectorBytes.
void sum_rows(const std::uint8_t* rows,
              std::size_t stride,
              const std::int16_t* weights,
              std::size_t taps,
              int shift,
              std::uint8_t* into);

}  // namespace ddp::worker
