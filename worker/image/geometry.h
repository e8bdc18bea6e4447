// Pixels that move but keep their values: flips, crops, borders, erased rectangles.
// `from` and `into` are never the same image.
#pragma once

#include "worker/image/image.h"

namespace ddp::worker {

/// What lies outside of an image.
struct Border {
  /// fill: one colour. reflect: mirrored at the outermost pixels, which are not repeated (d c b | a
  /// b c d | c b a). edge: repeats the outermost pixel.
  enum class Kind { fill, reflect, edge };
  Kind kind = Kind::fill;
  Color color{};  // of fill

  bool operator==(const Border&) const = default;
};

inline constexpr int kOutside = -1;

/// Which of a line's `size` pixels is seen at `position`, which may lie outside; or kOutside.
int pixel_seen_at(int position, int size, Border::Kind border);

/// Mirrors left and right, in place.
void flip_horizontal(Image& image);

/// Mirrors top and bottom, in place.
void flip_vertical(Image& image);

/// Cuts a region out. Where it reaches beyond the image, it shows the border. So crop() also pads:
/// one pixel all around is the region {-1, -1, height + 2, width + 2}.
/// Errors: std::logic_error when the region or `from` is empty.
void crop(const Image& from, const Region& region, const Border& border, Image& into);

/// The region of torchvision's center_crop; it reaches beyond a smaller image. Half pixels are
/// rounded to even.
Region center_region(ImageSize image, ImageSize crop);

/// Copies `from` into `into`, with its first pixel at (top, left); clipped. Precondition: both have
/// equally many channels.
void paste(const Image& from, int top, int left, Image& into);

/// Paints a rectangle, in place (cutout, random erasing), clipped at the image.
void erase(Image& image, const Region& region, Color color);

}  // namespace ddp::worker
