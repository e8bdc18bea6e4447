#include "worker/image/collage.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace ddp::worker {
namespace {

bool has_row(const Piece& piece, int y) {
  return y >= piece.top && y < piece.top + piece.size.height;
}

/// The piece's pixel at (y, x) of the collage. Precondition: it has one there.
const std::uint8_t* at(const Piece& piece, int channel, int y, int x) {
  const auto width = static_cast<std::size_t>(piece.size.width);
  const auto row = static_cast<std::size_t>(channel * piece.size.height + y - piece.top);
  return piece.bytes.data() + row * width + static_cast<std::size_t>(x - piece.left);
}

}  // namespace

const std::uint8_t* Collage::find_row(int channel, int y, int begin, int end) const {
  for (const Piece& piece : pieces) {
    if (has_row(piece, y) && begin >= piece.left && end <= piece.left + piece.size.width)
      return at(piece, channel, y, begin);
  }
  return nullptr;
}

void Collage::copy_row(int channel, int y, int begin, int end, std::uint8_t* into) const {
  const auto fill = [&](int to) {
    std::memset(into, ground[static_cast<std::size_t>(channel)], static_cast<std::size_t>(to));
    into += to;
  };
  int x = begin;
  for (const Piece& piece : pieces) {
    const int left = std::max(piece.left, x);
    const int right = std::min(piece.left + piece.size.width, end);
    if (!has_row(piece, y) || left >= right) continue;
    fill(left - x);
    std::memcpy(into, at(piece, channel, y, left), static_cast<std::size_t>(right - left));
    into += right - left;
    x = right;
  }
  fill(end - x);
}

std::uint8_t Collage::pixel(int channel, int y, int x) const {
  const std::uint8_t* const found = find_row(channel, y, x, x + 1);
  return found != nullptr ? *found : ground[static_cast<std::size_t>(channel)];
}

Collage collage_of(const Image& image) {
  return {image.channels, image.size(), {}, {{image.bytes, image.size(), 0, 0}}};
}

void paint(const Collage& collage, Image& into) {
  into.reshape(collage.channels, collage.size);
  for (int channel = 0; channel < into.channels; ++channel) {
    for (int y = 0; y < into.height; ++y)
      collage.copy_row(channel, y, 0, into.width, into.row(channel, y));
  }
}

}  // namespace ddp::worker
