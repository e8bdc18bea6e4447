// How a whole image fits into a square: its larger side becomes the square's, the rest is border;
// or into a rectangle that is as long. The augmentation and those who take boxes back to the image
// ask here, so both mean the same pixels.
#pragma once

#include <optional>

#include "worker/image/box.h"
#include "worker/image/image.h"

namespace ddp::worker {

struct Letterbox {
  ImageSize image;    // as it was
  ImageSize resized;  // neither side is below 1, so a thin image is stretched
  Region square;      // or rectangle: of the resized image, out of which it reaches

  bool operator==(const Letterbox&) const = default;
};

/// Precondition: the image has a pixel, and `side` is above 0.
Letterbox fit_letterbox(ImageSize image, int side);
/// The same into a rectangle. Where the image is of another shape than the rectangle was meant for,
/// the other side is the one that fills it. Precondition: neither side of `frame` is below 1.
Letterbox fit_letterbox(ImageSize image, ImageSize frame);

/// From pixels of the image to those of the square, and back. Neither is clipped.
Box into_square(const Box& box, const Letterbox& letterbox);
Box out_of_square(const Box& box, const Letterbox& letterbox);

/// What of a box in the square is in the image, in pixels of the image. Nothing for one that lies
/// in the border alone, or is empty.
std::optional<Box> box_in_image(const Box& box, const Letterbox& letterbox);

}  // namespace ddp::worker
