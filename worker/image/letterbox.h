// How a whole image fits into a square: its larger side becomes the square's, the rest is border.
// The augmentation and those who take boxes back to the image ask here, so both mean the same
// pixels.
#pragma once

#include "worker/image/box.h"
#include "worker/image/image.h"

namespace ddp::worker {

struct Letterbox {
  ImageSize image;    // as it was
  ImageSize resized;  // neither side is below 1, so a thin image is stretched
  Region square;      // of the resized image, out of which it reaches

  bool operator==(const Letterbox&) const = default;
};

/// Precondition: the image has a pixel, and `side` is above 0.
Letterbox fit_letterbox(ImageSize image, int side);

/// From pixels of the image to those of the square, and back. Neither is clipped.
Box into_square(const Box& box, const Letterbox& letterbox);
Box out_of_square(const Box& box, const Letterbox& letterbox);

}  // namespace ddp::worker
