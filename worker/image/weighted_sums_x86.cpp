#include "worker/image/weighted_sums_x86.h"

#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>

// Functions with it may use AVX2, whatever the rest of the program is compiled for.
// Trap: not so the lambdas in them (GCC 12), and what is inline in a header must not be made of it:
// the linker would keep one copy, for every CPU.
#define DDP_AVX2 __attribute__((target("avx2")))
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
  for (std::size_t x = 0; x < stride; x += 16) {
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
/// 16 bytes of one place, and behind them 16 of another.
DDP_AVX2 __m256i load_both(const void* low, const void* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(low))),
      _mm_loadu_si128(static_cast<const __m128i*>(high)),
      1);
}

/// Four weights, twice, of each of two pixels.
DDP_AVX2 __m256i load_weights(const std::int16_t* low, const std::int16_t* high) {
  long long both[2];
  std::memcpy(&both[0], low, sizeof both[0]);
  std::memcpy(&both[1], high, sizeof both[1]);
  return _mm256_blend_epi32(_mm256_set1_epi64x(both[0]), _mm256_set1_epi64x(both[1]), 0xf0);
}

DDP_AVX2 __m256i to_bytes(__m256i a, __m256i b, __m256i c, __m256i d, __m128i bits) {
  return _mm256_packus_epi16(
      _mm256_packs_epi32(_mm256_sra_epi32(a, bits), _mm256_sra_epi32(b, bits)),
      _mm256_packs_epi32(_mm256_sra_epi32(c, bits), _mm256_sra_epi32(d, bits)));
}

/// The four sums of each of two pixels, on top of `sum`.
DDP_AVX2 __m256i sum_two_pixels(const std::uint8_t* low,
                                const std::uint8_t* high,
                                const std::int16_t* low_weights,
                                const std::int16_t* high_weights,
                                std::size_t taps,
                                __m256i sum) {
  // Each byte beside that of the next pixel, as numbers of 16 bits: of pixels 0 and 1, and of 2 and
  // 3.
  const __m256i first = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
  const __m256i second = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
  for (std::size_t t = 0; t < taps; t += 4) {
    const __m256i pixels = load_both(low + t * kPixel, high + t * kPixel);
    const __m256i weights = load_weights(low_weights + t, high_weights + t);
    sum = _mm256_add_epi32(
        sum,
        _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, first), _mm256_shuffle_epi32(weights, 0x00)));
    sum = _mm256_add_epi32(sum,
                           _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, second),
                                             _mm256_shuffle_epi32(weights, 0x55)));
  }
  return sum;
}

DDP_AVX2 void sum_pixels_avx2(const std::uint8_t* row,
                              const int* first,
                              const std::int16_t* weights,
                              std::size_t taps,
                              int shift,
                              std::size_t count,
                              std::uint8_t* into) {
  const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
  const __m128i bits = _mm_cvtsi32_si128(shift);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256i sums[4];
    // The packs take from both halves in turn, so that pixels 0 to 3 end in the lower one.
    for (std::size_t k = 0; k < 4; ++k) {
      sums[k] = sum_two_pixels(row + kPixel * static_cast<std::size_t>(first[i + k]),
                               row + kPixel * static_cast<std::size_t>(first[i + k + 4]),
                               weights + (i + k) * taps,
                               weights + (i + k + 4) * taps,
                               taps,
                               half);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into + kPixel * i),
                        to_bytes(sums[0], sums[1], sums[2], sums[3], bits));
  }
  sum_pixels(row, first + i, weights + i * taps, taps, shift, count - i, into + kPixel * i);
}

DDP_AVX2 void sum_rows_avx2(const std::uint8_t* rows,
                            std::size_t stride,
                            const std::int16_t* weights,
                            std::size_t taps,
                            int shift,
                            std::uint8_t* into) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
  const __m128i bits = _mm_cvtsi32_si128(shift);
  for (std::size_t x = 0; x < stride; x += 32) {
    __m256i sums[4]{half, half, half, half};
    for (std::size_t t = 0; t < taps; t += 2) {
      const bool has_next = t + 1 < taps;
      const auto* const at = reinterpret_cast<const __m256i*>(rows + t * stride + x);
      const auto* const below = reinterpret_cast<const __m256i*>(rows + (t + 1) * stride + x);
      const __m256i row = _mm256_loadu_si256(at);
      const __m256i next = has_next ? _mm256_loadu_si256(below) : zero;
      const __m256i pair = _mm256_broadcastsi128_si256(has_next ? load_pair(weights + t)
                                                                : _mm_set1_epi32(weights[t]));
      const __m256i low = _mm256_unpacklo_epi8(row, next);
      const __m256i high = _mm256_unpackhi_epi8(row, next);
      sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), pair));
      sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), pair));
      sums[2] =
          _mm256_add_epi32(sums[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), pair));
      sums[3] =
          _mm256_add_epi32(sums[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), pair));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into + x),
                        to_bytes(sums[0], sums[1], sums[2], sums[3], bits));
  }
}

}  // namespace

std::vector<SumWay> sum_ways_of_x86() {
  std::vector<SumWay> ways{{"SSE2", sum_pixels, sum_rows}};
  if (__builtin_cpu_supports("avx2") != 0) ways.push_back({"AVX2", sum_pixels_avx2, sum_rows_avx2});
  return ways;
}
#else
std::vector<SumWay> sum_ways_of_x86() {
  return {};
}
#endif

}  // namespace ddp::worker
