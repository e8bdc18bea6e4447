#include "worker/image/pixel_rows.h"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ddp::worker {
namespace {

/// The bytes of one pixel as a number: red is the lowest byte (x86-64 is little-endian).
std::uint32_t number_of(const std::uint8_t* row, int x) {
  std::uint32_t number = 0;
  std::memcpy(&number, row + 4 * static_cast<std::ptrdiff_t>(x), sizeof number);
  return number;
}

#ifdef __SSE2__
// Trap: std::array would forget how a vector is aligned.
using Four = __m128i[4];

__m128i load(const std::uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

void store(__m128i vector, std::uint8_t* into) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(into), vector);
}

/// As many pixels as whole vectors take. Returns how many. Each line halves how far the bytes of a
/// color are apart.
int split_vectors(const std::uint8_t* row,
                  int width,
                  std::uint8_t* red,
                  std::uint8_t* green,
                  std::uint8_t* blue) {
  int x = 0;
  for (; x + 16 <= width; x += 16, row += 64) {
    const Four a{load(row), load(row + 16), load(row + 32), load(row + 48)};
    const Four b{_mm_unpacklo_epi8(a[0], a[2]),
                 _mm_unpackhi_epi8(a[0], a[2]),
                 _mm_unpacklo_epi8(a[1], a[3]),
                 _mm_unpackhi_epi8(a[1], a[3])};
    const Four c{_mm_unpacklo_epi8(b[0], b[2]),
                 _mm_unpackhi_epi8(b[0], b[2]),
                 _mm_unpacklo_epi8(b[1], b[3]),
                 _mm_unpackhi_epi8(b[1], b[3])};
    const Four d{_mm_unpacklo_epi8(c[0], c[2]),
                 _mm_unpacklo_epi8(c[1], c[3]),
                 _mm_unpackhi_epi8(c[0], c[2]),
                 _mm_unpackhi_epi8(c[1], c[3])};
    store(_mm_unpacklo_epi8(d[0], d[1]), red + x);
    store(_mm_unpackhi_epi8(d[0], d[1]), green + x);
    store(_mm_unpacklo_epi8(d[2], d[3]), blue + x);
  }
  return x;
}
#else
int split_vectors(const std::uint8_t*, int, std::uint8_t*, std::uint8_t*, std::uint8_t*) {
  return 0;
}
#endif

}  // namespace

void split_row(const std::uint8_t* row, int y, Image& into) {
  const int width = into.width;
  if (into.channels == 1) {
    std::uint8_t* __restrict grey = into.row(0, y);
    for (int x = 0; x < width; ++x) {
      const std::uint32_t rgb = number_of(row, x);
      const std::uint32_t luma =
          (rgb & 255U) * 19595 + (rgb >> 8 & 255U) * 38470 + (rgb >> 16 & 255U) * 7471;
      grey[x] = static_cast<std::uint8_t>((luma + 0x8000) >> 16);
    }
    return;
  }
  std::uint8_t* __restrict red = into.row(0, y);
  std::uint8_t* __restrict green = into.row(1, y);
  std::uint8_t* __restrict blue = into.row(2, y);
  for (int x = split_vectors(row, width, red, green, blue); x < width; ++x) {
    const std::uint8_t* const pixel = row + 4 * static_cast<std::ptrdiff_t>(x);
    red[x] = pixel[0];
    green[x] = pixel[1];
    blue[x] = pixel[2];
  }
}

void spread_row(const std::uint8_t* row, int y, Image& into) {
  for (int channel = 0; channel < into.channels; ++channel)
    std::memcpy(into.row(channel, y), row, static_cast<std::size_t>(into.width));
}

}  // namespace ddp::worker
