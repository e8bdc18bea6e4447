#include "worker/image/pixel_rows.h"

#include <cstring>

namespace ddp::worker {
namespace {

/// The bytes of one pixel as a number: red is the lowest byte (x86-64 is little-endian).
std::uint32_t pixel(const std::uint8_t* row, int x) {
  std::uint32_t number = 0;
  std::memcpy(&number, row + 4 * static_cast<std::ptrdiff_t>(x), sizeof number);
  return number;
}

}  // namespace

void split_row(const std::uint8_t* row, int y, Image& into) {
  const int width = into.width;
  if (into.channels == 1) {
    std::uint8_t* __restrict grey = into.row(0, y);
    for (int x = 0; x < width; ++x) {
      const std::uint32_t rgb = pixel(row, x);
      const std::uint32_t luma =
          (rgb & 255U) * 19595 + (rgb >> 8 & 255U) * 38470 + (rgb >> 16 & 255U) * 7471;
      grey[x] = static_cast<std::uint8_t>((luma + 0x8000) >> 16);
    }
    return;
  }
  std::uint8_t* __restrict red = into.row(0, y);
  std::uint8_t* __restrict green = into.row(1, y);
  std::uint8_t* __restrict blue = into.row(2, y);
  for (int x = 0; x < width; ++x, row += 4) {
    red[x] = row[0];
    green[x] = row[1];
    blue[x] = row[2];
  }
}

void spread_row(const std::uint8_t* row, int y, Image& into) {
  for (int channel = 0; channel < into.channels; ++channel)
    std::memcpy(into.row(channel, y), row, static_cast<std::size_t>(into.width));
}

}  // namespace ddp::worker
