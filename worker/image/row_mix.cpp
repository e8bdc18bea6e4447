#include "worker/image/row_mix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "worker/image/row_source.h"

#ifdef __SSE2__
#include <immintrin.h>

// As in weighted_sums.cpp: no lambdas in functions with this attribute.
#define DDP_AVX2 __attribute__((target("avx2")))
#endif

namespace ddp::worker {
namespace {

/// Bytes that are scattered over the rows are put side by side first, so that the sums are vectors.
void mix_plain(const std::uint8_t* upper,
               const std::uint8_t* lower,
               int below,
               const MixedColumns& columns,
               std::uint8_t* into) {
  constexpr std::size_t kBlock = 64;
  std::array<std::uint16_t, kBlock> above_pairs;
  std::array<std::uint16_t, kBlock> below_pairs;
  const auto of_lower = static_cast<std::int16_t>(below);
  const auto of_upper = static_cast<std::int16_t>(kParts - below);
  for (std::size_t first = 0; first < columns.count(); first += kBlock) {
    const std::size_t count = std::min(kBlock, columns.count() - first);
    const std::uint8_t* const weights = columns.weights() + 2 * first;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t place = columns.places()[first + i];
      above_pairs[i] = read_pair(upper + place);
      below_pairs[i] = read_pair(lower + place);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::int16_t left = weights[2 * i];
      const std::int16_t right = weights[2 * i + 1];
      const auto mix_pair = [&](std::uint16_t pair) {
        return static_cast<std::int16_t>((pair & 255) * left + (pair >> 8) * right);
      };
      const int sum = mix_pair(above_pairs[i]) * of_upper + mix_pair(below_pairs[i]) * of_lower;
      into[first + i] = static_cast<std::uint8_t>((sum + kParts * kParts / 2) >> (2 * kPartBits));
    }
  }
}

#ifdef __SSE2__
const __m128i* vector_at(const void* bytes) {
  return static_cast<const __m128i*>(bytes);
}

/// 16 bytes from one place, followed by 16 from another.
DDP_AVX2 __m256i load_both(const std::uint8_t* low, const std::uint8_t* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(vector_at(low))), _mm_loadu_si128(vector_at(high)), 1);
}

/// Mixes pairs of pixels of one row, in 128ths. Each pixel has 128 subtracted: the instruction
/// multiplies unsigned weights by signed bytes.
DDP_AVX2 __m256i mix_pairs(__m256i pixels, __m256i picks, __m256i weights) {
  const __m256i pairs = _mm256_shuffle_epi8(pixels, picks);
  return _mm256_maddubs_epi16(weights, _mm256_xor_si256(pairs, _mm256_set1_epi8(-128)));
}

/// Sums of eight pixels, in 128ths of 128ths, as numbers below 256.
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
    // Within each half, the third instruction undoes how the first two split the pixels.
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
#endif

}  // namespace

MixedColumns::MixedColumns(std::vector<std::int32_t> places,
                           const std::vector<std::uint8_t>& parts,
                           int width)
    : places_(std::move(places)), weights_((places_.size() + kAtOnce - 1) / kAtOnce * kAtOnce * 2) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    weights_[2 * i] = static_cast<std::uint8_t>(kParts - parts[i]);
    weights_[2 * i + 1] = parts[i];
  }
  find_starts(width);
}

void MixedColumns::find_starts(int width) {
  constexpr int kBytes = 2 * static_cast<int>(kHalf);
  if (width < kBytes) return;
  const std::size_t halves = weights_.size() / 2 / kHalf;
  starts_.resize(halves);
  picks_.resize(halves * kBytes);
  for (std::size_t half = 0; half < halves; ++half) {
    const std::size_t begin = half * kHalf;
    const std::size_t end = std::min(begin + kHalf, places_.size());
    if (begin >= end) continue;  // past the last one: any columns, with weights of 0
    const auto [least, most] = std::minmax_element(places_.begin() + static_cast<long>(begin),
                                                   places_.begin() + static_cast<long>(end));
    // Bytes beyond the row must not be read.
    const std::int32_t start = std::min(*least, width - kBytes);
    if (*most + 1 - start >= kBytes) return starts_.clear();
    starts_[half] = start;
    for (std::size_t i = begin; i < end; ++i) {
      picks_[2 * i] = static_cast<std::uint8_t>(places_[i] - start);
      picks_[2 * i + 1] = static_cast<std::uint8_t>(places_[i] - start + 1);
    }
  }
}

const std::vector<MixKernel>& mix_kernels() {
  static const std::vector<MixKernel> kKernels = [] {
    std::vector<MixKernel> kernels{{"plain", mix_plain}};
#ifdef __SSE2__
    if (__builtin_cpu_supports("avx2")) kernels.push_back({"AVX2", mix_avx2});
#endif
    return kernels;
  }();
  return kKernels;
}

}  // namespace ddp::worker
