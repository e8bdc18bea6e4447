// Pieces of images on a ground of one colour, before anybody paints them: a mosaic of which a part
// is seen is read where its images lie, and no canvas is filled and copied to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// An image whose bytes somebody else keeps, and where its first pixel lies: it may reach out of
/// the collage, or lie outside.
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
  std::vector<Piece> pieces;  // none over another one; those of a row from left to right

  /// Columns from `begin` to before `end` of a row, as they lie in one piece; null where more than
  /// that is in them. Precondition: all of them are of the collage.
  [[nodiscard]] const std::uint8_t* find_row(int channel, int y, int begin, int end) const;
  /// The same columns, copied.
  void copy_row(int channel, int y, int begin, int end, std::uint8_t* into) const;
  /// Precondition: it is of the collage.
  [[nodiscard]] std::uint8_t pixel(int channel, int y, int x) const;
};

/// The whole of an image, which outlives it.
Collage collage_of(const Image& image);

/// All of it as an image.
void paint(const Collage& collage, Image& into);

}  // namespace ddp::worker
