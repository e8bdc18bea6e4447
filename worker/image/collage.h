// Pieces of images on a background of one colour, not painted yet. If only a part of a mosaic is
// visible, its pixels can be read directly from the images, without painting the whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// An image whose bytes somebody else owns, and where its first pixel lies in the collage. It may
/// reach beyond the collage, or lie outside.
struct Piece {
  std::span<const std::uint8_t> bytes;  // [channels, height, width]
  ImageSize size;
  int top = 0;
  int left = 0;
};

struct Collage {
  int channels = 0;
  ImageSize size;
  Color ground{};
  std::vector<Piece> pieces;  // no two overlap; those of a row from left to right

  /// The columns [begin, end) of a row, if they lie in one piece; else null. Precondition: all of
  /// them are in the collage.
  [[nodiscard]] const std::uint8_t* find_row(int channel, int y, int begin, int end) const;
  /// The same columns, copied.
  void copy_row(int channel, int y, int begin, int end, std::uint8_t* into) const;
  /// Precondition: the pixel is in the collage.
  [[nodiscard]] std::uint8_t pixel(int channel, int y, int x) const;
};

/// A collage of one whole image; the image outlives it.
Collage collage_of(const Image& image);

/// Paints the whole collage as an image.
void paint(const Collage& collage, Image& into);

}  // namespace ddp::worker
