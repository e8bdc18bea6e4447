#include "worker/image/weighted_sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ddp::worker {

#ifdef __SSE2__
namespace {

// Trap: std::array would forget how a vector is aligned.
using Four = __m128i[4];

__m128i load(const std::uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

void store(__m128i vector, std::uint8_t* into) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(into), vector);
}

/// Two weights, four times.
__m128i load_pair(const std::int16_t* weights) {
  std::int32_t pair = 0;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm_set1_epi32(pair);
}

/// Four sums each, rounded.
__m128i to_bytes(const Four& sums, int shift) {
  const __m128i half = _mm_set1_epi32(1 << (shift - 1));
  const __m128i bits = _mm_cvtsi32_si128(shift);
  const auto rounded = [&](__m128i sum) { return _mm_sra_epi32(_mm_add_epi32(sum, half), bits); };
  // Both packs saturate: what lies below 0 or above 255 ends there.
  return _mm_packus_epi16(_mm_packs_epi32(rounded(sums[0]), rounded(sums[1])),
                          _mm_packs_epi32(rounded(sums[2]), rounded(sums[3])));
}

/// The four sums of one pixel.
__m128i sum_pixel(const std::uint8_t* pixels, const std::int16_t* weights, std::size_t taps) {
  const __m128i zero = _mm_setzero_si128();
  __m128i sum = zero;
  for (std::size_t t = 0; t < taps; t += 4) {
    const __m128i four = load(pixels + t * kPixel);
    const __m128i next = _mm_srli_si128(four, kPixel);
    // Each byte beside that of the next pixel: of pixels 0 and 1, and of 2 and 3.
    const __m128i low = _mm_unpacklo_epi8(_mm_unpacklo_epi8(four, next), zero);
    const __m128i high = _mm_unpacklo_epi8(_mm_unpackhi_epi8(four, next), zero);
    sum = _mm_add_epi32(sum, _mm_madd_epi16(low, load_pair(weights + t)));
    sum = _mm_add_epi32(sum, _mm_madd_epi16(high, load_pair(weights + t + 2)));
  }
  return sum;
}

}  // namespace

void interleave(const std::uint8_t* red,
                const std::uint8_t* green,
                const std::uint8_t* blue,
                std::size_t count,
                std::uint8_t* into) {
  const __m128i zero = _mm_setzero_si128();
  std::size_t x = 0;
  for (; x + kVectorBytes <= count; x += kVectorBytes) {
    const __m128i r = load(red + x);
    const __m128i g = load(green + x);
    const __m128i b = load(blue + x);
    std::uint8_t* const to = into + kPixel * x;
    const __m128i first[]{_mm_unpacklo_epi8(r, g), _mm_unpackhi_epi8(r, g)};
    const __m128i second[]{_mm_unpacklo_epi8(b, zero), _mm_unpackhi_epi8(b, zero)};
    store(_mm_unpacklo_epi16(first[0], second[0]), to);
    store(_mm_unpackhi_epi16(first[0], second[0]), to + kVectorBytes);
    store(_mm_unpacklo_epi16(first[1], second[1]), to + 2 * kVectorBytes);
    store(_mm_unpackhi_epi16(first[1], second[1]), to + 3 * kVectorBytes);
  }
  for (; x < count; ++x) {
    const std::array<std::uint8_t, kPixel> pixel{red[x], green[x], blue[x], 0};
    std::ranges::copy(pixel, into + kPixel * x);
  }
}

void sum_pixels(const std::uint8_t* row,
                const int* first,
                const std::int16_t* weights,
                std::size_t taps,
                int shift,
                std::size_t count,
                std::uint8_t* into) {
  const auto sum = [&](std::size_t i) {
    return sum_pixel(row + kPixel * static_cast<std::size_t>(first[i]), weights + i * taps, taps);
  };
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4)
    store(to_bytes({sum(i), sum(i + 1), sum(i + 2), sum(i + 3)}, shift), into + kPixel * i);
  for (; i < count; ++i) {
    const __m128i one = sum(i);
    const std::int32_t pixel = _mm_cvtsi128_si32(to_bytes({one, one, one, one}, shift));
    std::memcpy(into + kPixel * i, &pixel, sizeof pixel);
  }
}

void sum_rows(const std::uint8_t* rows,
              std::size_t stride,
              const std::int16_t* weights,
              std::size_t taps,
              int shift,
              std::uint8_t* into) {
  const __m128i zero = _mm_setzero_si128();
  for (std::size_t x = 0; x < stride; x += kVectorBytes) {
    Four sums{zero, zero, zero, zero};
    for (std::size_t t = 0; t < taps; t += 2) {
      const bool has_next = t + 1 < taps;
      const __m128i row = load(rows + t * stride + x);
      const __m128i next = has_next ? load(rows + (t + 1) * stride + x) : zero;
      const __m128i pair = has_next ? load_pair(weights + t) : _mm_set1_epi32(weights[t]);
      const __m128i low = _mm_unpacklo_epi8(row, next);
      const __m128i high = _mm_unpackhi_epi8(row, next);
      const Four pairs{_mm_unpacklo_epi8(low, zero),
                       _mm_unpackhi_epi8(low, zero),
                       _mm_unpacklo_epi8(high, zero),
                       _mm_unpackhi_epi8(high, zero)};
      for (std::size_t k = 0; k < 4; ++k)
        sums[k] = _mm_add_epi32(sums[k], _mm_madd_epi16(pairs[k], pair));
    }
    store(to_bytes(sums, shift), into + x);
  }
}
#else
namespace {

std::uint8_t to_byte(std::int32_t sum, int shift) {
  return static_cast<std::uint8_t>(std::clamp((sum + (1 << (shift - 1))) >> shift, 0, 255));
}

}  // namespace

void interleave(const std::uint8_t* red,
                const std::uint8_t* green,
                const std::uint8_t* blue,
                std::size_t count,
                std::uint8_t* into) {
  for (std::size_t x = 0; x < count; ++x) {
    const std::array<std::uint8_t, kPixel> pixel{red[x], green[x], blue[x], 0};
    std::ranges::copy(pixel, into + kPixel * x);
  }
}

void sum_pixels(const std::uint8_t* row,
                const int* first,
                const std::int16_t* weights,
                std::size_t taps,
                int shift,
                std::size_t count,
                std::uint8_t* into) {
  for (std::size_t i = 0; i < count; ++i, weights += taps) {
    const std::uint8_t* const pixels = row + kPixel * static_cast<std::size_t>(first[i]);
    for (std::size_t c = 0; c < kPixel; ++c) {
      std::int32_t sum = 0;
      for (std::size_t t = 0; t < taps; ++t)
        sum += pixels[kPixel * t + c] * weights[t];
      into[kPixel * i + c] = to_byte(sum, shift);
    }
  }
}

void sum_rows(const std::uint8_t* rows,
              std::size_t stride,
              const std::int16_t* weights,
              std::size_t taps,
              int shift,
              std::uint8_t* into) {
  for (std::size_t x = 0; x < stride; ++x) {
    std::int32_t sum = 0;
    for (std::size_t t = 0; t < taps; ++t)
      sum += rows[t * stride + x] * weights[t];
    into[x] = to_byte(sum, shift);
  }
}
#endif

}  // namespace ddp::worker
