#include "worker/data/augment/pixel_map.h"

#include <algorithm>
#include <cassert>

namespace ddp::worker {
namespace {

using Lines = std::vector<PixelMap::Line>;

void count_up(Lines& lines, int size) {
  lines.resize(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i)
    lines[static_cast<std::size_t>(i)] = {i, 0};
}

void cut(Lines& lines, int first, int size, Border::Kind border, Lines& buffer) {
  buffer.resize(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) {
    const int source = pixel_seen_at(first + i, static_cast<int>(lines.size()), border);
    buffer[static_cast<std::size_t>(i)] =
        source == kOutside ? PixelMap::Line{kOutside, 0} : lines[static_cast<std::size_t>(source)];
  }
  lines.swap(buffer);
}

void mark(Lines& lines, int first, int size, std::uint64_t bit) {
  const int begin = std::clamp(first, 0, static_cast<int>(lines.size()));
  const int end = std::clamp(first + size, begin, static_cast<int>(lines.size()));
  for (int i = begin; i < end; ++i)
    lines[static_cast<std::size_t>(i)].erased |= bit;
}

}  // namespace

void PixelMap::reset(ImageSize image) {
  count_up(rows_, image.height);
  count_up(columns_, image.width);
  erased_ = 0;
}

ImageSize PixelMap::size() const {
  return {static_cast<int>(rows_.size()), static_cast<int>(columns_.size())};
}

void PixelMap::flip_horizontal() {
  std::ranges::reverse(columns_);
}

void PixelMap::flip_vertical() {
  std::ranges::reverse(rows_);
}

void PixelMap::crop(const Region& region, const Border& border) {
  assert(border.kind != Border::Kind::fill || border.color == Color{});
  cut(rows_, region.top, region.height, border.kind, spare_);
  cut(columns_, region.left, region.width, border.kind, spare_);
}

void PixelMap::erase(const Region& region) {
  if (erased_++ >= kMaxErased) return;
  const std::uint64_t bit = std::uint64_t{1} << (erased_ - 1);
  mark(rows_, region.top, region.height, bit);
  mark(columns_, region.left, region.width, bit);
}

}  // namespace ddp::worker
