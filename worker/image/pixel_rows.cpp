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

/// Separates as many pixels as whole vectors take, and returns how many. Each line halves the
/// distance of a color's bytes. A null fourth row is left out.
std::size_t separate_vectors(const std::uint8_t* pixels,
                             std::size_t count,
                             const std::array<std::uint8_t*, 4>& rows) {
  std::size_t x = 0;
  for (; x + 16 <= count; x += 16, pixels += 64) {
    const Four a{load(pixels), load(pixels + 16), load(pixels + 32), load(pixels + 48)};
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
    store(_mm_unpacklo_epi8(d[0], d[1]), rows[0] + x);
    store(_mm_unpackhi_epi8(d[0], d[1]), rows[1] + x);
    store(_mm_unpacklo_epi8(d[2], d[3]), rows[2] + x);
    if (rows[3] != nullptr) store(_mm_unpackhi_epi8(d[2], d[3]), rows[3] + x);
  }
  return x;
}

/// The inverse of separate_vectors().
std::size_t interleave_vectors(const std::array<const std::uint8_t*, 4>& rows,
                               std::size_t count,
                               std::uint8_t* into) {
  std::size_t x = 0;
  for (; x + 16 <= count; x += 16, into += 64) {
    const Four a{load(rows[0] + x), load(rows[1] + x), load(rows[2] + x), load(rows[3] + x)};
    const Four b{_mm_unpacklo_epi8(a[0], a[1]),
                 _mm_unpackhi_epi8(a[0], a[1]),
                 _mm_unpacklo_epi8(a[2], a[3]),
                 _mm_unpackhi_epi8(a[2], a[3])};
    store(_mm_unpacklo_epi16(b[0], b[2]), into);
    store(_mm_unpackhi_epi16(b[0], b[2]), into + 16);
    store(_mm_unpacklo_epi16(b[1], b[3]), into + 32);
    store(_mm_unpackhi_epi16(b[1], b[3]), into + 48);
  }
  return x;
}
#else
std::size_t separate_vectors(const std::uint8_t*,
                             std::size_t,
                             const std::array<std::uint8_t*, 4>&) {
  return 0;
}

std::size_t interleave_vectors(const std::array<const std::uint8_t*, 4>&,
                               std::size_t,
                               std::uint8_t*) {
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
  separate(row,
           static_cast<std::size_t>(width),
           {into.row(0, y), into.row(1, y), into.row(2, y), nullptr});
}

void paste_onto(const Color& background, std::size_t count, std::uint8_t* row) {
  for (std::uint8_t* const end = row + 4 * count; row != end; row += 4) {
    const unsigned alpha = row[3];
    for (std::size_t k = 0; k < background.size(); ++k) {
      const unsigned sum = row[k] * alpha + background[k] * (255U - alpha) + 128;
      row[k] = static_cast<std::uint8_t>((sum + (sum >> 8)) >> 8);
    }
  }
}

void write_grey_row(const std::uint8_t* row, int y, Image& into) {
  for (int channel = 0; channel < into.channels; ++channel)
    std::memcpy(into.row(channel, y), row, static_cast<std::size_t>(into.width));
}

void interleave(const std::array<const std::uint8_t*, 4>& rows,
                std::size_t count,
                std::uint8_t* into) {
  for (std::size_t x = interleave_vectors(rows, count, into); x < count; ++x) {
    for (std::size_t k = 0; k < 4; ++k)
      into[4 * x + k] = rows[k][x];
  }
}

void separate(const std::uint8_t* pixels,
              std::size_t count,
              const std::array<std::uint8_t*, 4>& rows) {
  const std::size_t kept = rows[3] == nullptr ? 3 : 4;
  for (std::size_t x = separate_vectors(pixels, count, rows); x < count; ++x) {
    for (std::size_t k = 0; k < kept; ++k)
      rows[k][x] = pixels[4 * x + k];
  }
}

}  // namespace ddp::worker
