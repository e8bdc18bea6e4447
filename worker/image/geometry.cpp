#include "worker/image/geometry.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace ddp::worker {
namespace {

/// Copies one row of the region: the part before the image, the image, and the part after it.
void cut_row(const std::uint8_t* from,
             int width,
             int left,
             const Border& border,
             std::uint8_t color,
             std::span<std::uint8_t> into) {
  const int size = static_cast<int>(into.size());
  const int before = std::clamp(-left, 0, size);
  const int inside = std::clamp(width - std::max(left, 0), 0, size - before);
  const auto outside = [&](int begin, int end) {
    for (int x = begin; x < end; ++x) {
      const int source = pixel_seen_at(left + x, width, border.kind);
      into[static_cast<std::size_t>(x)] = source == kOutside ? color : from[source];
    }
  };
  outside(0, before);
  if (inside > 0)
    std::memcpy(into.data() + before, from + left + before, static_cast<std::size_t>(inside));
  outside(before + inside, size);
}

/// Eight pixels at a time, because without AVX no instruction reverses a row.
void flip_row(std::uint8_t* row, int width) {
  std::uint8_t* left = row;
  std::uint8_t* right = row + width;
  for (; right - left >= 16; left += 8, right -= 8) {
    std::uint64_t head = 0;
    std::uint64_t tail = 0;
    std::memcpy(&head, left, 8);
    std::memcpy(&tail, right - 8, 8);
    head = __builtin_bswap64(head);
    tail = __builtin_bswap64(tail);
    std::memcpy(left, &tail, 8);
    std::memcpy(right - 8, &head, 8);
  }
  std::reverse(left, right);
}

/// Half of a number; a half goes to the even neighbour, as Python rounds.
int half_to_even(int twice) {
  const int down = twice / 2;
  return twice % 2 == 0 ? down : down + down % 2;
}

}  // namespace

int pixel_seen_at(int position, int size, Border::Kind border) {
  if (position >= 0 && position < size) return position;
  if (border == Border::Kind::fill) return kOutside;
  if (border == Border::Kind::edge || size == 1) return std::clamp(position, 0, size - 1);
  const int period = 2 * (size - 1);
  const int in_period = (position % period + period) % period;
  return std::min(in_period, period - in_period);
}

void flip_horizontal(Image& image) {
  for (int row = 0; row < image.channels * image.height; ++row)
    flip_row(image.row(0, row), image.width);
}

void flip_vertical(Image& image) {
  for (int channel = 0; channel < image.channels; ++channel) {
    for (int above = 0, below = image.height - 1; above < below; ++above, --below) {
      std::uint8_t* row = image.row(channel, above);
      std::swap_ranges(row, row + image.width, image.row(channel, below));
    }
  }
}

void crop(const Image& from, const Region& region, const Border& border, Image& into) {
  if (region.height <= 0 || region.width <= 0 || from.bytes.empty())
    throw std::logic_error("a crop of no pixel");
  into.reshape(from.channels, region.size());
  for (int channel = 0; channel < from.channels; ++channel) {
    const std::uint8_t color = border.color[static_cast<std::size_t>(channel)];
    for (int y = 0; y < region.height; ++y) {
      const std::span row(into.row(channel, y), static_cast<std::size_t>(region.width));
      const int source = pixel_seen_at(region.top + y, from.height, border.kind);
      if (source == kOutside)
        std::fill(row.begin(), row.end(), color);
      else
        cut_row(from.row(channel, source), from.width, region.left, border, color, row);
    }
  }
}

Region center_region(ImageSize image, ImageSize crop) {
  const auto start = [](int size, int wanted) {
    return wanted > size ? -((wanted - size) / 2) : half_to_even(size - wanted);
  };
  return {
      start(image.height, crop.height), start(image.width, crop.width), crop.height, crop.width};
}

void paste(const Image& from, int top, int left, Image& into) {
  const int first = std::max(-left, 0);
  const int width = std::min(from.width, into.width - left) - first;
  if (width <= 0) return;
  for (int channel = 0; channel < from.channels; ++channel) {
    for (int y = std::max(-top, 0); y < std::min(from.height, into.height - top); ++y) {
      std::memcpy(into.row(channel, top + y) + left + first,
                  from.row(channel, y) + first,
                  static_cast<std::size_t>(width));
    }
  }
}

void erase(Image& image, const Region& region, Color color) {
  const int left = std::clamp(region.left, 0, image.width);
  const int right = std::clamp(region.left + region.width, left, image.width);
  const int top = std::clamp(region.top, 0, image.height);
  const int bottom = std::clamp(region.top + region.height, top, image.height);
  for (int channel = 0; channel < image.channels; ++channel) {
    for (int y = top; y < bottom; ++y) {
      std::uint8_t* row = image.row(channel, y);
      std::fill(row + left, row + right, color[static_cast<std::size_t>(channel)]);
    }
  }
}

}  // namespace ddp::worker
