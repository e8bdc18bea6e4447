#include "worker/image/row_mix_x86.h"

#include <cstring>

#include "worker/image/way.h"

#ifdef __SSE2__
#include <immintrin.h>

// As in weighted_sums_x86.cpp: no lambdas in functions with it.
#define DDP_AVX2 __attribute__((target("avx2")))
#endif

namespace ddp::worker {

#ifdef __SSE2__
namespace {

const __m128i* vector_at(const void* bytes) {
  return static_cast<const __m128i*>(bytes);
}

/// 16 bytes of one place, and behind them 16 of another.
DDP_AVX2 __m256i load_both(const std::uint8_t* low, const std::uint8_t* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(vector_at(low))), _mm_loadu_si128(vector_at(high)), 1);
}

/// Pairs of pixels of one row in 128ths, less 128 each: bytes with a sign are what weights without
/// one are multiplied with.
DDP_AVX2 __m256i mix_pairs(__m256i pixels, __m256i picks, __m256i weights) {
  const __m256i pairs = _mm256_shuffle_epi8(pixels, picks);
  return _mm256_maddubs_epi16(weights, _mm256_xor_si256(pairs, _mm256_set1_epi8(-128)));
}

/// Sums of eight pixels, in 128ths of 128ths, as numbers that end before 256.
DDP_AVX2 __m256i to_numbers(__m256i pairs, __m256i of_rows) {
  const __m256i rest = _mm256_set1_epi32(128 * kParts * kParts + kParts * kParts / 2);
  return _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(pairs, of_rows), rest),
                           2 * kPartBits);
}

DDP_AVX2 void mix_avx2(const std::uint8_t* upper,
                       const std::uint8_t* lower,
                       int below,
                       const MixedColumns& columns,
                       std::uint8_t* into) {
  constexpr std::size_t kAtOnce = MixedColumns::kAtOnce;
  const std::int32_t* start = columns.starts().data();
  const std::uint8_t* pick = columns.picks();
  const std::uint8_t* weight = columns.weights();
  const std::size_t count = columns.count();
  const __m256i of_rows = _mm256_set1_epi32(below << 16 | (kParts - below));
  for (std::size_t i = 0; i < count; i += kAtOnce, start += 2, pick += 32, weight += 32) {
    const __m256i picks = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pick));
    const __m256i weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weight));
    const __m256i above = mix_pairs(load_both(upper + start[0], upper + start[1]), picks, weights);
    const __m256i under = mix_pairs(load_both(lower + start[0], lower + start[1]), picks, weights);
    // Within each half, what the first two take apart the third puts together.
    const __m256i low = to_numbers(_mm256_unpacklo_epi16(above, under), of_rows);
    const __m256i high = to_numbers(_mm256_unpackhi_epi16(above, under), of_rows);
    const __m256i numbers = _mm256_packs_epi32(low, high);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
    if (count - i >= kAtOnce)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(into + i), bytes);
    else
      std::memcpy(into + i, &bytes, count - i);
  }
}

}  // namespace

std::vector<MixWay> mix_ways_of_x86() {
  if (__builtin_cpu_supports("avx2") == 0) return {};
  return {{"AVX2", mix_avx2}};
}
#else
std::vector<MixWay> mix_ways_of_x86() {
  return {};
}
#endif

}  // namespace ddp::worker
