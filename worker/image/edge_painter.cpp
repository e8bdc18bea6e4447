#include "worker/image/edge_painter.h"

#include <algorithm>

namespace ddp::worker {

void EdgePainter::paint_around(const RowSource& source, int y, const Range& inside) const {
  const Range near = source.between(-1, from_.size.width, from_.size.height, {0, into_.width});
  const int end = std::max(near.begin, near.end);
  const bool has_inside = inside.begin < inside.end;
  fill(y, 0, near.begin);
  mix(source, y, near.begin, has_inside ? inside.begin : end);
  if (has_inside) mix(source, y, inside.end, end);
  fill(y, end, into_.width);
}

void EdgePainter::fill(int y, int begin, int end) const {
  for (int channel = 0; channel < into_.channels; ++channel) {
    std::uint8_t* const row = into_.row(channel, y);
    std::fill(row + begin, row + end, border_[static_cast<std::size_t>(channel)]);
  }
}

std::int64_t EdgePainter::pixel(int channel, std::int64_t row, std::int64_t column) const {
  const bool is_there =
      column >= 0 && row >= 0 && column < from_.size.width && row < from_.size.height;
  return is_there ? from_.pixel(channel, static_cast<int>(row), static_cast<int>(column))
                  : border_[static_cast<std::size_t>(channel)];
}

// Pixel by pixel: there are few of them.
void EdgePainter::mix(const RowSource& source, int y, int begin, int end) const {
  for (int x = begin; x < end; ++x) {
    const double depth = source.depth.at(x);
    const std::int64_t across = parts_of(source.x.at(x) / depth);
    const std::int64_t down = parts_of(source.y.at(x) / depth);
    const std::int64_t column = across >> kPartBits;
    const std::int64_t row = down >> kPartBits;
    const std::int64_t right = across & (kParts - 1);
    const std::int64_t below = down & (kParts - 1);
    for (int channel = 0; channel < into_.channels; ++channel) {
      const auto mix_row = [&](std::int64_t from) {
        return pixel(channel, from, column) * (kParts - right) +
               pixel(channel, from, column + 1) * right;
      };
      const std::int64_t sum = mix_row(row) * (kParts - below) + mix_row(row + 1) * below;
      into_.row(channel, y)[x] =
          static_cast<std::uint8_t>((sum + kParts * kParts / 2) >> (2 * kPartBits));
    }
  }
}

}  // namespace ddp::worker
