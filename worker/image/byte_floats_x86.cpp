#include "worker/image/byte_floats_x86.h"

#ifdef __SSE2__
#include <immintrin.h>

// As in weighted_sums_x86.cpp: no lambdas in functions with it, and no code of headers.
#define DDP_AVX2 __attribute__((target("avx2")))
#endif

namespace ddp::worker {

#ifdef __SSE2__
namespace {

constexpr std::size_t kAtOnce = 16;  // pixels
// So many bytes of numbers, and no cache keeps them until they are read: then they go to memory
// past it, which saves reading what is overwritten.
constexpr std::size_t kMuch = 1U << 20;

/// 16 bytes of each colour in turn as three vectors of pixels.
using Bytes = __m128i[3];

DDP_AVX2 __m128i load(const std::uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

DDP_AVX2 __m128i pick(const Bytes& planes, __m128i red, __m128i green, __m128i blue) {
  return _mm_or_si128(
      _mm_or_si128(_mm_shuffle_epi8(planes[0], red), _mm_shuffle_epi8(planes[1], green)),
      _mm_shuffle_epi8(planes[2], blue));
}

DDP_AVX2 void interleave(const Bytes& planes, Bytes& into) {
  constexpr char o = -128;  // nothing is picked
  into[0] = pick(planes,
                 _mm_setr_epi8(0, o, o, 1, o, o, 2, o, o, 3, o, o, 4, o, o, 5),
                 _mm_setr_epi8(o, 0, o, o, 1, o, o, 2, o, o, 3, o, o, 4, o, o),
                 _mm_setr_epi8(o, o, 0, o, o, 1, o, o, 2, o, o, 3, o, o, 4, o));
  into[1] = pick(planes,
                 _mm_setr_epi8(o, o, 6, o, o, 7, o, o, 8, o, o, 9, o, o, 10, o),
                 _mm_setr_epi8(5, o, o, 6, o, o, 7, o, o, 8, o, o, 9, o, o, 10),
                 _mm_setr_epi8(o, 5, o, o, 6, o, o, 7, o, o, 8, o, o, 9, o, o));
  into[2] = pick(planes,
                 _mm_setr_epi8(o, 11, o, o, 12, o, o, 13, o, o, 14, o, o, 15, o, o),
                 _mm_setr_epi8(o, o, 11, o, o, 12, o, o, 13, o, o, 14, o, o, 15, o),
                 _mm_setr_epi8(10, o, o, 11, o, o, 12, o, o, 13, o, o, 14, o, o, 15));
}

/// Eight bytes, divided by 255. A product is sooner than a quotient: 1 / 255 in two parts, of which
/// the first one has so few bits that its product is exact; what the sum rounds is then the
/// quotient, for each of the 256 bytes (byte_floats_test).
DDP_AVX2 __m256 to_floats(__m128i bytes) {
  constexpr float kFirst = 0x1.01p-8F;
  constexpr float kRest = static_cast<float>(1.0 / 255 - 0x1.01p-8);
  const __m256 numbers = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  return _mm256_add_ps(_mm256_mul_ps(numbers, _mm256_set1_ps(kFirst)),
                       _mm256_mul_ps(numbers, _mm256_set1_ps(kRest)));
}

DDP_AVX2 void load_pixels(const std::uint8_t* planes,
                          std::size_t count,
                          std::size_t i,
                          Bytes& pixels) {
  const Bytes colors{load(planes + i), load(planes + count + i), load(planes + 2 * count + i)};
  interleave(colors, pixels);
}

DDP_AVX2 void write_avx2(const std::uint8_t* planes, std::size_t count, float* into) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(into) % sizeof(__m256) == 0;
  const bool is_much = 3 * count * sizeof(float) >= kMuch;
  std::size_t i = 0;
  Bytes pixels;
  if (is_aligned && is_much) {
    for (; i + kAtOnce <= count; i += kAtOnce) {
      load_pixels(planes, count, i, pixels);
      for (std::size_t k = 0; k < 3; ++k) {
        float* const here = into + 3 * i + kAtOnce * k;
        _mm256_stream_ps(here, to_floats(pixels[k]));
        _mm256_stream_ps(here + 8, to_floats(_mm_srli_si128(pixels[k], 8)));
      }
    }
    // Other threads see what went past the cache once a lock says that it is there.
    _mm_sfence();
  } else {
    for (; i + kAtOnce <= count; i += kAtOnce) {
      load_pixels(planes, count, i, pixels);
      for (std::size_t k = 0; k < 3; ++k) {
        float* const here = into + 3 * i + kAtOnce * k;
        _mm256_storeu_ps(here, to_floats(pixels[k]));
        _mm256_storeu_ps(here + 8, to_floats(_mm_srli_si128(pixels[k], 8)));
      }
    }
  }
  for (; i < count; ++i) {
    for (std::size_t k = 0; k < 3; ++k)
      into[3 * i + k] = static_cast<float>(planes[k * count + i]) / 255;
  }
}

}  // namespace

std::vector<FloatWay> float_ways_of_x86() {
  if (__builtin_cpu_supports("avx2") == 0) return {};
  return {{"AVX2", write_avx2}};
}
#else
std::vector<FloatWay> float_ways_of_x86() {
  return {};
}
#endif

}  // namespace ddp::worker
