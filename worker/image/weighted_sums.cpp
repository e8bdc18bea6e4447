#include "worker/image/weighted_sums.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>

// Functions with this attribute may use AVX2, whatever the rest of the program is compiled for.
// Trap: the lambdas in them may not (GCC 12), and they must not instantiate what is inline in a
// header: the linker would keep one copy of it for every CPU.
#define DDP_AVX2 __attribute__((target("avx2")))
#endif

namespace ddp::worker {
namespace {

std::uint8_t to_byte(std::int32_t sum, int shift) {
  return static_cast<std::uint8_t>(std::clamp((sum + (1 << (shift - 1))) >> shift, 0, 255));
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
    std::int32_t sums[kPixel]{};
    for (std::size_t t = 0; t < taps; ++t) {
      for (std::size_t c = 0; c < kPixel; ++c)
        sums[c] += pixels[kPixel * t + c] * weights[t];
    }
    for (std::size_t c = 0; c < kPixel; ++c)
      into[kPixel * i + c] = to_byte(sums[c], shift);
  }
}

void sum_rows(const std::uint8_t* rows,
              std::size_t stride,
              const std::int16_t* weights,
              std::size_t taps,
              int shift,
              std::uint8_t* into) {
  for (std::size_t x = 0; x < stride; x += kVectorBytes) {
    std::int32_t sums[kVectorBytes]{};
    for (std::size_t t = 0; t < taps; ++t) {
      const std::uint8_t* const row = rows + t * stride + x;
      for (std::size_t i = 0; i < kVectorBytes; ++i)
        sums[i] += std::int16_t{row[i]} * weights[t];
    }
    for (std::size_t i = 0; i < kVectorBytes; ++i)
      into[x + i] = to_byte(sums[i], shift);
  }
}

#ifdef __SSE2__
/// 16 bytes from one place, followed by 16 from another.
DDP_AVX2 __m256i load_halves(const void* low, const void* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(low))),
      _mm_loadu_si128(static_cast<const __m128i*>(high)),
      1);
}

/// Two weights, repeated eight times.
DDP_AVX2 __m256i load_pair(const std::int16_t* weights) {
  std::int32_t pair = 0;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm256_set1_epi32(pair);
}

/// Four weights of each of two pixels, each four repeated twice.
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

/// The four sums of each of two pixels, added to `sum`.
DDP_AVX2 __m256i sum_two_pixels(const std::uint8_t* low,
                                const std::uint8_t* high,
                                const std::int16_t* low_weights,
                                const std::int16_t* high_weights,
                                std::size_t taps,
                                __m256i sum) {
  // Each byte beside that of the next pixel, as numbers of 16 bits: for pixels 0 and 1, and for 2
  // and 3.
  const __m256i first = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
  const __m256i second = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
  for (std::size_t t = 0; t < taps; t += 4) {
    const __m256i pixels = load_halves(low + t * kPixel, high + t * kPixel);
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

constexpr std::size_t kEight = 8;  // pixels at once

DDP_AVX2 void sum_pixels_avx2(const std::uint8_t* row,
                              const int* first,
                              const std::int16_t* weights,
                              std::size_t taps,
                              int shift,
                              std::size_t count,
                              std::uint8_t* into) {
  const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
  const __m128i bits = _mm_cvtsi32_si128(shift);
  if (count < kEight) return sum_pixels(row, first, weights, taps, shift, count, into);
  for (std::size_t next = 0; next < count; next += kEight) {
    // The last eight pixels may repeat some of the ones before.
    const std::size_t i = std::min(next, count - kEight);
    __m256i sums[4];
    // The packs alternate between both halves, so that pixels 0 to 3 end in the lower one.
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
      const __m256i pair = has_next ? load_pair(weights + t) : _mm256_set1_epi32(weights[t]);
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
#endif

}  // namespace

const std::vector<SumKernel>& sum_kernels() {
  static const std::vector<SumKernel> kKernels = [] {
    std::vector<SumKernel> kernels{{"plain", sum_pixels, sum_rows}};
#ifdef __SSE2__
    if (__builtin_cpu_supports("avx2")) kernels.push_back({"AVX2", sum_pixels_avx2, sum_rows_avx2});
#endif
    return kernels;
  }();
  return kKernels;
}

}  // namespace ddp::worker
